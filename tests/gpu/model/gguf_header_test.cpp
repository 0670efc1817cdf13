// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gguf_header.hpp"

#include <random>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/gpu/gguf_writer.hpp"

namespace troupe {
namespace {

using test::gguf_number;
using test::gguf_text;
using test::GgufType;
using test::GgufWriter;

GgufHeader parse(const std::string& file) { return parse_gguf(std::as_bytes(std::span(file))); }

GgufWriter good() {
  GgufWriter writer;
  writer.add_text("general.architecture", "llama");
  writer.add("llama.block_count", 2);
  writer.add_float("llama.rope.freq_base", 10000.0F);
  writer.add_bool("tokenizer.ggml.add_bos_token", true);
  writer.add_texts("tokenizer.ggml.tokens", {"a", "bc", ""});
  writer.add_array("tokenizer.ggml.token_type", GgufType::kI32,
                   {gguf_number(1, 4), gguf_number(static_cast<std::uint64_t>(-2), 4)});
  writer.add_tensor("a", {2, 3}, BlockFormat::kF32, std::string(24, '\1'));
  writer.add_tensor("b", {32}, BlockFormat::kQ8_0, std::string(34, '\2'));
  return writer;
}

// The complaint of the reader; empty if it doesn't.
std::string complaint(const std::string& file) {
  try {
    parse(file);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

std::string with_entry(const std::vector<std::uint64_t>& dimensions, std::uint32_t type, std::uint64_t offset,
                       const std::string& name = "x") {
  GgufWriter writer;
  writer.add_tensor("first", {16}, BlockFormat::kF32, std::string(64, '\1'));
  writer.add_entry(name, dimensions, type, offset);
  return writer.file() + std::string(256, '\0');
}

std::string with_value(GgufType type, const std::string& bytes) {
  GgufWriter writer;
  writer.add_value("key", type, bytes);
  return writer.file();
}

std::string with_alignment(GgufType type, const std::string& bytes) {
  GgufWriter writer;
  writer.add_value("general.alignment", type, bytes);
  writer.add_tensor("a", {8}, BlockFormat::kF32, std::string(32, '\1'));
  return writer.file();
}

std::string of_version(std::uint32_t version) {
  GgufWriter writer;
  writer.version = version;
  return writer.file();
}

std::string with_counts(std::uint64_t num_extra_tensors, std::uint64_t num_extra_keys) {
  GgufWriter writer;
  writer.num_extra_tensors = num_extra_tensors;
  writer.num_extra_keys = num_extra_keys;
  return writer.file();
}

std::string array_of(std::uint32_t type, std::uint64_t count, const std::string& rest = {}) {
  return with_value(GgufType::kArray, gguf_number(type, 4) + gguf_number(count, 8) + rest);
}

struct HostileFile {
  const char* name;
  std::string bytes;
  const char* reason;  // must occur in the error
};

std::vector<HostileFile> hostile_files() {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
  const std::string whole = good().file();
  GgufWriter twice;
  twice.add("key", 1);
  twice.add("key", 1);
  return {
      {"empty", "", "does not begin with \"GGUF\""},
      {"other magic", "PK\3\4" + whole.substr(4), "does not begin with \"GGUF\""},
      {"only the magic", "GGUF", "truncated"},
      {"version 1", of_version(1), "version 1"},
      {"version 4", of_version(4), "version 4"},
      {"big-endian", of_version(0x03000000), "big-endian"},
      {"keys near 2^63", with_counts(0, kHuge - 1), "more than the 65536"},
      {"tensors near 2^63", with_counts(kHuge - 1, 0), "more than the 200000"},
      {"more keys than bytes", with_counts(0, 60'000), "60000 keys can't be in"},
      {"more tensors than bytes", with_counts(100'000, 0), "100000 tensors can't be in"},
      {"key twice", twice.file(), "twice"},
      {"string beyond the file", with_value(GgufType::kString, gguf_number(1000, 8)), "truncated"},
      {"string of 2^63", with_value(GgufType::kString, gguf_number(kHuge, 8)), "at most 16777216"},
      {"boolean 2", with_value(GgufType::kBool, "\2"), "the boolean 2"},
      {"unknown value type", with_value(static_cast<GgufType>(13), "12345678"), "unknown type 13"},
      {"array of arrays", array_of(9, 1, std::string(12, '\0')), "array of arrays"},
      {"array beyond the file", array_of(4, 1'000'000), "bytes are left"},
      {"array of 2^63", array_of(0, kHuge), "8388608"},
      {"alignment 0", with_alignment(GgufType::kU32, gguf_number(0, 4)), "power of two"},
      {"alignment 24", with_alignment(GgufType::kU32, gguf_number(24, 4)), "power of two"},
      {"alignment 2^31", with_alignment(GgufType::kU32, gguf_number(1U << 31, 4)), "power of two"},
      {"alignment in words", with_alignment(GgufType::kString, gguf_text("32")), "power of two"},
      {"no dimensions", with_entry({}, 0, 64), "0 dimensions"},
      {"five dimensions", with_entry({1, 1, 1, 1, 1}, 0, 64), "5 dimensions"},
      {"a dimension of 0", with_entry({4, 0}, 0, 64), "dimension of 0"},
      {"dimensions that overflow", with_entry({kHuge, 2}, 0, 64), "overflow"},
      {"dimensions whose product is 0", with_entry({std::uint64_t{1} << 32, std::uint64_t{1} << 32}, 0, 64),
       "overflow"},
      {"bytes that overflow", with_entry({kHuge - 1}, 0, 64), "overflow"},
      {"half a block", with_entry({48}, 8, 64), "blocks of 32"},
      {"removed type", with_entry({32}, 4, 64), "unknown type 4"},
      {"type of a fork", with_entry({32}, 208, 64), "unknown type 208"},
      {"offset inside another", with_entry({4}, 0, 32), "overlaps"},
      {"offset that is shared", with_entry({4}, 0, 0), "overlaps"},
      {"offset not aligned", with_entry({4}, 0, 65), "no multiple of 32"},
      {"offset beyond the file", with_entry({4}, 0, 1U << 20), "truncated"},
      {"offset near 2^64", with_entry({4}, 0, ~std::uint64_t{31}), "truncated"},
      {"longer than the file", with_entry({1U << 20}, 0, 64), "truncated"},
      {"name twice", with_entry({4}, 0, 64, "first"), "occurs twice"},
      {"tensor without a name", with_entry({4}, 0, 64, ""), "without a name"},
      {"long name", with_entry({4}, 0, 64, std::string(513, 'n')), "513 bytes"},
  };
}

}  // namespace

TEST_CASE("gguf header: keys and tensors are read") {
  const GgufHeader header = parse(good().file());
  CHECK(header.version == 3);
  CHECK(*header.find("general.architecture")->as_text() == "llama");
  CHECK(*header.find("llama.block_count")->as_unsigned() == 2);
  CHECK(*header.find("llama.rope.freq_base")->as_number() == 10000.0);
  CHECK(*header.find("tokenizer.ggml.add_bos_token")->as_bool());
  const auto& tokens = *header.find("tokenizer.ggml.tokens")->as_array();
  REQUIRE(tokens.size() == 3);
  CHECK(*tokens[1].as_text() == "bc");
  const auto& types = *header.find("tokenizer.ggml.token_type")->as_array();
  CHECK(*types[0].as_unsigned() == 1);
  CHECK(std::get<std::int64_t>(types[1].value) == -2);
  CHECK(header.find("llama.nothing") == nullptr);
  CHECK(header.find("general.architecture")->as_unsigned() == nullptr);

  REQUIRE(header.tensors.size() == 2);
  CHECK(header.tensors[0].shape() == std::vector<std::uint64_t>{3, 2});
  CHECK(header.tensors[0].size_bytes == 24);
  CHECK(header.tensors[1].type_name() == "Q8_0");
  const std::string file = good().file();
  CHECK(file[header.tensors[0].begin] == '\1');
  CHECK(file[header.tensors[1].begin] == '\2');
}

TEST_CASE("gguf header: version 2, another alignment and a type that isn't read here are no faults") {
  GgufWriter writer;
  writer.version = 2;
  writer.alignment = 64;
  writer.add("general.alignment", 64);
  writer.add_tensor("a", {8}, BlockFormat::kF32, std::string(32, '\1'));
  writer.add_tensor("b", {8}, BlockFormat::kF32, std::string(32, '\2'));
  writer.add_entry("c", {256}, 10, 128);  // Q2_K
  const std::string file = writer.file() + std::string(84, '\3');
  const GgufHeader header = parse(file);
  CHECK(header.version == 2);
  CHECK(header.tensors[1].begin == header.tensors[0].begin + 64);
  CHECK(file[header.tensors[1].begin] == '\2');
  CHECK(header.tensors[2].layout == nullptr);
  CHECK(header.tensors[2].type_name() == "Q2_K");
}

TEST_CASE("gguf header: a file that lies is refused with the reason") {
  for (const auto& hostile : hostile_files()) {
    CAPTURE(hostile.name);
    const std::string said = complaint(hostile.bytes);
    CHECK_MESSAGE(said.find(hostile.reason) != std::string::npos, said);
  }
}

TEST_CASE("gguf header: a file cut anywhere is refused") {
  const std::string file = good().file();
  const std::size_t end = parse(file).tensors[1].begin + 34;
  for (std::size_t size = 0; size < end; ++size) {
    CAPTURE(size);
    CHECK(!complaint(file.substr(0, size)).empty());
  }
  CHECK(complaint(file.substr(0, end)).empty());
}

TEST_CASE("gguf header: bytes turned at random are refused or harmless") {
  std::mt19937 random(7);
  const std::string whole = good().file();
  for (int round = 0; round < 20'000; ++round) {
    std::string file = whole;
    for (std::uint32_t i = random() % 4; i < 4; ++i)
      file[random() % file.size()] = static_cast<char>(random());
    try {
      for (const GgufTensor& tensor : parse(file).tensors) {
        REQUIRE(tensor.begin <= file.size());
        REQUIRE(tensor.size_bytes <= file.size() - tensor.begin);
      }
    } catch (const std::runtime_error& error) {
      REQUIRE(*error.what() != '\0');
    }
  }
}

}  // namespace troupe
