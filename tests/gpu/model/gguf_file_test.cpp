// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gguf_file.hpp"

#include <cstdio>

#include <doctest/doctest.h>

#include "tests/support/gpu/gguf_writer.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

using test::gguf_number;
using test::GgufType;
using test::GgufWriter;

std::string part_name(int number, int num_parts) {
  char name[40];
  std::snprintf(name, sizeof name, "model-%05d-of-%05d.gguf", number, num_parts);
  return name;
}

// A part with one tensor that is named after it.
GgufWriter part(std::uint64_t number, std::uint64_t num_parts, const std::string& tensor) {
  GgufWriter writer;
  writer.add_value("split.no", GgufType::kU16, gguf_number(number, 2));
  writer.add_value("split.count", GgufType::kU16, gguf_number(num_parts, 2));
  if (number == 0) {
    writer.add_value("split.tensors.count", GgufType::kI32, gguf_number(num_parts, 4));
    writer.add_text("general.architecture", "llama");
  }
  writer.add_tensor(tensor, {8}, BlockFormat::kF32, std::string(32, static_cast<char>('a' + number)));
  return writer;
}

void write_parts(const TemporaryDirectory& directory) {
  for (int i = 0; i < 3; ++i)
    directory.write(part_name(i + 1, 3), part(i, 3, "t" + std::to_string(i)).file());
}

std::string complaint(const std::filesystem::path& path) {
  try {
    const GgufFile file(path);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

void check_says(const std::string& said, const std::string& part) {
  CHECK_MESSAGE(said.find(part) != std::string::npos, said);
}

}  // namespace

TEST_CASE("gguf file: values have a type, tensors their bytes") {
  const TemporaryDirectory directory;
  GgufWriter writer;
  writer.add("count", 3);
  writer.add_float("factor", 0.5F);
  writer.add_text("name", "llama");
  writer.add_bool("flag", true);
  writer.add_texts("list", {"a"});
  writer.add_value("negative", GgufType::kI32, gguf_number(static_cast<std::uint64_t>(-1), 4));
  writer.add_tensor("t", {8}, BlockFormat::kF32, std::string(32, 'x'));
  const GgufFile file(directory.write("m.gguf", writer.file()));
  CHECK(file.find_unsigned("count") == 3);
  CHECK(file.find_number("count") == 3.0);
  CHECK(file.find_number("factor") == 0.5);
  CHECK(file.find_number("negative") == -1.0);
  CHECK(*file.find_text("name") == "llama");
  CHECK(file.find_bool("flag") == true);
  CHECK(file.find_array("list")->size() == 1);
  CHECK_FALSE(file.find_unsigned("absent").has_value());
  CHECK(file.find_text("absent") == nullptr);
  CHECK_THROWS_WITH_AS(file.find_unsigned("name"), doctest::Contains("m.gguf: name is of another type"),
                       std::runtime_error);
  CHECK_THROWS_AS(file.find_unsigned("negative"), std::runtime_error);
  CHECK_THROWS_AS(file.find_text("count"), std::runtime_error);
  CHECK_THROWS_AS(file.find_bool("count"), std::runtime_error);
  CHECK_THROWS_AS(file.find_number("name"), std::runtime_error);
  CHECK_THROWS_AS(file.find_array("name"), std::runtime_error);
  REQUIRE(file.find_tensor("t") != nullptr);
  CHECK(std::to_integer<char>(file.find_tensor("t")->bytes()[31]) == 'x');
  CHECK(file.find_tensor("u") == nullptr);
}

TEST_CASE("gguf file: parts are one model") {
  const TemporaryDirectory directory;
  write_parts(directory);
  const GgufFile file(directory.path() / part_name(1, 3));
  CHECK(file.parts().size() == 3);
  CHECK(file.tensors().size() == 3);
  CHECK(*file.find_text("general.architecture") == "llama");
  for (int i = 0; i < 3; ++i) {
    const auto* tensor = file.find_tensor("t" + std::to_string(i));
    REQUIRE(tensor != nullptr);
    CHECK(std::to_integer<char>(tensor->bytes()[0]) == 'a' + i);
  }
  CHECK(gguf_parts(directory.path() / part_name(1, 3)).size() == 3);
  for (const char* alone : {"model.gguf", "m-00000-of-00000.gguf", "m-00002-of-00001.gguf"})
    CHECK(gguf_parts(directory.path() / alone) == std::vector{directory.path() / alone});
}

TEST_CASE("gguf file: parts that don't fit together are refused") {
  const auto refusal = [](int number, const GgufWriter& writer, int opened = 1) {
    const TemporaryDirectory directory;
    write_parts(directory);
    directory.write(part_name(number, 3), writer.file());
    return complaint(directory.path() / part_name(opened, 3));
  };
  CHECK(refusal(2, part(1, 3, "t1")).empty());
  check_says(refusal(2, part(2, 3, "t1")), part_name(2, 3) + ": is not part 2 of 3");
  check_says(refusal(2, part(1, 4, "t1")), "is not part 2 of 3");
  check_says(refusal(2, part(1, 3, "t0")), "the tensor \"t0\" is in another part, too");
  check_says(refusal(1, part(0, 4, "t0")), "first of 4 parts, but its name");
  check_says(refusal(1, part(0, 60'000, "t0")), "at most 1000");
  check_says(refusal(2, part(1, 3, "t1"), 2), "is not the first part");
  check_says(refusal(2, part(1, 3, "t1"), 2), "-00001-of-00003.gguf");
  GgufWriter fewer = part(1, 3, "t1");
  fewer.add_tensor("u", {8}, BlockFormat::kF32, std::string(32, 'u'));
  check_says(refusal(2, fewer), "states 3 tensors in all parts, they have 4");

  const TemporaryDirectory directory;
  directory.write(part_name(1, 3), part(0, 3, "t0").file());
  check_says(complaint(directory.path() / part_name(1, 3)), part_name(2, 3) + ": is missing");
}

}  // namespace troupe
