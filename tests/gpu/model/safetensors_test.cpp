// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/safetensors.hpp"

#include <random>
#include <string>

#include <doctest/doctest.h>

#include "gpu/model/weights.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i) & 0xFF);
  return file + rest;
}

// Appending one by one: GCC 12 warns of its own operator+ (PR105651).
template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  ((text += parts), ...);
  return text;
}

std::string file_of(const std::string& header, std::size_t num_data_bytes) {
  return with_length(header.size(), header + std::string(num_data_bytes, '\1'));
}

std::vector<SafetensorsEntry> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)));
}

// One tensor: F32 [2] at [0, 8).
const std::string kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

std::string tensor(const std::string& name, const std::string& shape, const std::string& offsets,
                   const std::string& type = "F32") {
  return joined("\"", name, R"(":{"dtype":")", type, R"(","shape":)", shape, R"(,"data_offsets":)", offsets,
                "}");
}

struct HostileFile {
  const char* name;
  std::string bytes;
  const char* reason;  // must occur in the error
};

std::vector<HostileFile> hostile_headers() {
  return {
      {"empty file", "", "truncated"},
      {"seven bytes", std::string(7, '\0'), "truncated"},
      {"length only, header missing", with_length(10, ""), "truncated"},
      {"header one byte short", with_length(kGood.size() + 9, kGood + "12345678"), "truncated"},
      {"length of all ones", with_length(~0ULL, kGood), "100000000"},
      {"length that wraps with the 8 bytes", with_length(~0ULL - 7, kGood), "100000000"},
      {"length over the limit", with_length(100'000'001, kGood), "100000000"},
      {"length zero", with_length(0, ""), "does not start with '{'"},
      {"spaces before the header", file_of(joined(" ", kGood), 8), "does not start with '{'"},
      {"byte order mark", file_of(joined("\xEF\xBB\xBF", kGood), 8), "does not start with '{'"},
      {"an array", file_of("[1,2]", 0), "does not start with '{'"},
      {"cut JSON", file_of(R"({"a":{"dtype":"F32","shape":[2])", 8), "not valid JSON"},
      {"two documents", file_of(kGood + kGood, 8), "not valid JSON"},
      {"zero bytes after the header", file_of(kGood + std::string(4, '\0'), 8), "zero byte"},
      {"invalid UTF-8 in a name", file_of(joined("{", tensor("\xFF\xFE", "[2]", "[0,8]"), "}"), 8),
       "not valid JSON"},
      {"a comment", file_of("{/* */}", 0), "not valid JSON"},
      {"deep nesting", file_of(joined("{\"a\":", std::string(100'000, '['), "}"), 0), "an array"},
      {"tensor that is a number", file_of(R"({"a":1})", 0), "a number"},
      {"tensor that is null", file_of(R"({"a":null})", 0), "null"},
      {"tensor that is a list", file_of(R"({"a":[]})", 0), "an array"},
      {"metadata with a number", file_of(R"({"__metadata__":{"n":1}})", 0), "__metadata__"},
      {"metadata with an object", file_of(R"({"__metadata__":{"n":{}}})", 0), "__metadata__"},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "twice"},
  };
}

std::vector<HostileFile> hostile_tensors() {
  const auto one = [](const std::string& entry) { return file_of(joined("{", entry, "}"), 8); };
  return {
      {"same name twice", one(joined(tensor("a", "[1]", "[0,4]"), ",", tensor("a", "[1]", "[4,8]"))),
       "occurs twice"},
      {"same field twice", one(R"("a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"),
       "twice"},
      {"unknown field", one(R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"code":"x"})"),
       "unknown field"},
      {"no dtype", one(R"("a":{"shape":[2],"data_offsets":[0,8]})"), "no dtype"},
      {"no shape", one(R"("a":{"dtype":"F32","data_offsets":[0,8]})"), "no shape"},
      {"no offsets", one(R"("a":{"dtype":"F32","shape":[2]})"), "data_offsets"},
      {"one offset", one(tensor("a", "[2]", "[0]")), "data_offsets"},
      {"three offsets", one(tensor("a", "[2]", "[0,8,8]")), "data_offsets"},
      {"unknown dtype", one(tensor("a", "[2]", "[0,8]", "Q4_0")), "dtype"},
      {"empty dtype", one(tensor("a", "[2]", "[0,8]", "")), "dtype"},
      {"dtype that is a number", one(R"("a":{"dtype":4,"shape":[2],"data_offsets":[0,8]})"), "a number"},
      {"negative dimension", one(tensor("a", "[-2]", "[0,8]")), "negative"},
      {"fractional dimension", one(tensor("a", "[2.0]", "[0,8]")), "not an integer"},
      {"dimension of 1e999", one(tensor("a", "[1e999]", "[0,8]")), "JSON"},
      {"dimension of 2^64", one(tensor("a", "[18446744073709551616]", "[0,8]")), "not an integer"},
      {"dimension that is a string", one(tensor("a", "[\"2\"]", "[0,8]")), "a string"},
      {"nested shape", one(tensor("a", "[[2]]", "[0,8]")), "an array"},
      {"nine dimensions", one(tensor("a", "[1,1,1,1,1,1,1,1,2]", "[0,8]")), "8 dimensions"},
      {"product that wraps to 8", one(tensor("a", "[4611686018427387906,1]", "[0,8]")), "overflows"},
      {"product that wraps to 0", one(tensor("a", "[4294967296,4294967296]", "[0,0]")), "overflows"},
      {"negative offset", one(tensor("a", "[2]", "[-8,0]")), "negative"},
      {"reversed offsets", one(tensor("a", "[2]", "[8,0]")), "reversed"},
      {"offset beyond the file", one(tensor("a", "[4]", "[0,16]")), "truncated"},
      {"offset of 2^64 - 1", one(tensor("a", "[2]", "[18446744073709551607,18446744073709551615]")),
       "truncated"},
      {"span smaller than the shape", one(tensor("a", "[2]", "[0,4]")), "span"},
      {"span larger than the shape", one(tensor("a", "[1]", "[0,8]")), "span"},
      {"overlap", one(joined(tensor("a", "[2]", "[0,8]"), ",", tensor("b", "[1]", "[4,8]"))), "overlaps"},
      {"same bytes twice", one(joined(tensor("a", "[2]", "[0,8]"), ",", tensor("b", "[2]", "[0,8]"))),
       "overlaps"},
      {"empty tensor inside another",
       one(joined(tensor("a", "[2]", "[0,8]"), ",", tensor("b", "[0]", "[4,4]"))), "overlaps"},
      {"gap at the start", one(tensor("a", "[1]", "[4,8]")), "gap"},
      {"gap in the middle",
       file_of(joined("{", tensor("a", "[1]", "[0,4]"), ",", tensor("b", "[1]", "[8,12]"), "}"), 12), "gap"},
      {"bytes that belong to nobody", one(tensor("a", "[1]", "[0,4]")), "belong to no tensor"},
      {"empty name", one(tensor("", "[2]", "[0,8]")), "name"},
      {"name of 513 bytes", one(tensor(std::string(513, 'n'), "[2]", "[0,8]")), "name"},
      {"control character in a name", one(tensor("a\\u0001", "[2]", "[0,8]")), "control"},
      {"newline in a name", one(tensor("a\\nb", "[2]", "[0,8]")), "control"},
  };
}

std::string error_of(const std::string& file) {
  try {
    parse(file);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("safetensors: a good file is read") {
  const auto entries = parse(file_of(kGood, 8));
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].name == "a");
  CHECK(entries[0].type == DataType::kF32);
  CHECK(entries[0].shape == std::vector<std::uint64_t>{2});
  CHECK(entries[0].begin == 8 + kGood.size());
  CHECK(entries[0].size_bytes == 8);
}

TEST_CASE("safetensors: padding, metadata, scalars, empty tensors and other types are fine") {
  const std::string header = R"({"__metadata__":{"format":"pt"},)" + tensor("z", "[]", "[0,4]") + "," +
                             tensor("e", "[0,7]", "[4,4]") + "," + tensor("i", "[2]", "[4,20]", "I64") +
                             "}   ";
  const auto entries = parse(file_of(header, 20));
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].name == "e");
  CHECK(entries[0].size_bytes == 0);
  CHECK_FALSE(entries[1].type.has_value());
  CHECK(entries[2].shape.empty());
}

TEST_CASE("safetensors: an empty header describes no data") { CHECK(parse(file_of("{}", 0)).empty()); }

TEST_CASE("safetensors: hostile headers are refused with their reason") {
  for (const auto& file : hostile_headers()) {
    CAPTURE(file.name);
    const std::string error = error_of(file.bytes);
    CAPTURE(error);
    CHECK(error.find(file.reason) != std::string::npos);
    CHECK(error.size() < 300);
  }
}

TEST_CASE("safetensors: hostile tensors are refused with their reason") {
  for (const auto& file : hostile_tensors()) {
    CAPTURE(file.name);
    const std::string error = error_of(file.bytes);
    CAPTURE(error);
    CHECK(error.find(file.reason) != std::string::npos);
    CHECK(error.size() < 300);
  }
}

TEST_CASE("safetensors: more tensors than allowed are refused") {
  std::string header = "{";
  for (int i = 0; i <= 200'000; ++i) {
    header += i > 0 ? "," : "";
    header += tensor(std::to_string(i), "[0]", "[0,0]");
  }
  CHECK(error_of(file_of(header + "}", 0)).find("200000") != std::string::npos);
}

TEST_CASE("safetensors: a random byte changed anywhere never crashes") {
  const std::string header =
      joined("{", tensor("a", "[2]", "[0,8]"), ",", tensor("b", "[3,1]", "[8,14]", "BF16"), "}");
  const std::string good = file_of(header, 14);
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    try {
      for (const auto& entry : parse(bad)) CHECK(entry.begin + entry.size_bytes <= bad.size());
    } catch (const std::runtime_error&) {
      // refused: fine
    }
  }
}

TEST_CASE("safetensors: every cut of a good file is refused, with its name") {
  const TemporaryDirectory directory;
  const std::string good = file_of(kGood, 8);
  for (std::size_t size = 0; size < good.size(); ++size) {
    directory.write("model.safetensors", good.substr(0, size));
    CAPTURE(size);
    CHECK_THROWS_WITH_AS(SafetensorsFile(directory.path() / "model.safetensors"),
                         doctest::Contains("model.safetensors: is truncated"), std::runtime_error);
  }
}

TEST_CASE("safetensors: what is no regular file is refused") {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() / "model.safetensors");
  CHECK_THROWS_WITH_AS(SafetensorsFile(directory.path() / "model.safetensors"),
                       doctest::Contains("is not a regular file"), std::runtime_error);
  CHECK_THROWS_WITH_AS(SafetensorsFile(directory.path() / "none.safetensors"),
                       doctest::Contains("none.safetensors: is missing"), std::runtime_error);
}

}  // namespace troupe
