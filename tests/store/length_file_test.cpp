// SPDX-License-Identifier: Apache-2.0
#include "store/length_file.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

TEST_CASE("length file: each model has its own, and the last text that was written") {
  const test::TemporaryDirectory root;
  const StateDirectory directory(root.path() / "state");
  CHECK_FALSE(read_length_file(directory, "a"));
  CHECK_FALSE(write_length_file(directory, "a", "first"));
  CHECK_FALSE(write_length_file(directory, "a/../b", std::string(100'000, 'x')));
  CHECK_FALSE(write_length_file(directory, "a", "second"));
  CHECK(read_length_file(directory, "a") == "second");
  CHECK(read_length_file(directory, "a/../b") == std::string(100'000, 'x'));
  CHECK_FALSE(read_length_file(directory, "c"));
}

TEST_CASE("length file: one that can't be written says why, and the one before stays") {
  const test::TemporaryDirectory root;
  const StateDirectory directory(root.path() / "state");
  REQUIRE_FALSE(write_length_file(directory, "a", "first"));
  // Where the new one would be written is a directory.
  std::filesystem::create_directory(root.path() / "state" / (length_file_name("a") + ".new"));
  const auto problem = write_length_file(directory, "a", "second");
  REQUIRE(problem);
  CHECK_FALSE(problem->empty());
  CHECK(read_length_file(directory, "a") == "first");
}

TEST_CASE("length file: a link in its place is not followed") {
  const test::TemporaryDirectory root;
  const StateDirectory directory(root.path() / "state");
  REQUIRE_FALSE(write_length_file(directory, "a", "secret"));
  std::filesystem::create_symlink(length_file_name("a"), root.path() / "state" / length_file_name("b"));
  CHECK_FALSE(read_length_file(directory, "b"));
}

}  // namespace
}  // namespace troupe
