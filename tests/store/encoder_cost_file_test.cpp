// SPDX-License-Identifier: Apache-2.0
#include "store/measurement_files.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "store/sqlite/sqlite.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

EncoderCosts costs_of(double token_time) {
  return EncoderCosts([&](std::uint32_t length, std::uint32_t num_texts) {
    return std::optional(1000.0 + token_time * length * num_texts);
  });
}

std::filesystem::path file_in(const StateDirectory& directory) { return directory.path() / kEncoderCostFile; }

}  // namespace

TEST_CASE("encoder cost file: costs are kept by key, the last ones written") {
  const test::TemporaryDirectory place;
  const StateDirectory directory(place.path() / "state");
  CHECK_FALSE(read_encoder_costs(directory, "a"));
  CHECK_FALSE(std::filesystem::exists(file_in(directory)));
  write_encoder_costs(directory, "a", costs_of(5));
  write_encoder_costs(directory, "b", costs_of(7));
  write_encoder_costs(directory, "a", costs_of(6));
  CHECK((*read_encoder_costs(directory, "a"))(100, 3) == doctest::Approx(costs_of(6)(100, 3)));
  CHECK((*read_encoder_costs(directory, "b"))(100, 3) == doctest::Approx(costs_of(7)(100, 3)));
  CHECK_FALSE(read_encoder_costs(directory, "c"));
  using std::filesystem::perms;
  CHECK(std::filesystem::status(file_in(directory)).permissions() ==
        (perms::owner_read | perms::owner_write));
}

TEST_CASE("encoder cost file: what can't be costs is an error, and is written over") {
  const test::TemporaryDirectory place;
  const StateDirectory directory(place.path() / "state");
  std::ofstream(file_in(directory))
      << "this is no database, and is as long as a header of one would be, or more";
  CHECK_THROWS_AS(read_encoder_costs(directory, "a"), std::runtime_error);
  write_encoder_costs(directory, "a", costs_of(5));
  CHECK(read_encoder_costs(directory, "a"));

  SqliteDatabase(file_in(directory)).execute("UPDATE cost SET nanoseconds = 1 WHERE point = 7");
  CHECK_THROWS_AS(read_encoder_costs(directory, "a"), std::runtime_error);
  SqliteDatabase(file_in(directory)).execute("DELETE FROM cost WHERE point = 7");
  CHECK_THROWS_AS(read_encoder_costs(directory, "a"), std::runtime_error);
  SqliteDatabase(file_in(directory)).execute("DROP TABLE cost; CREATE TABLE cost(other)");
  CHECK_THROWS_AS(read_encoder_costs(directory, "a"), std::runtime_error);
  write_encoder_costs(directory, "a", costs_of(5));
  CHECK(read_encoder_costs(directory, "a"));
}

TEST_CASE("encoder cost file: a link is not followed") {
  const test::TemporaryDirectory place;
  const StateDirectory directory(place.path() / "state");
  std::filesystem::create_symlink(place.path() / "elsewhere", file_in(directory));
  CHECK_THROWS_AS(read_encoder_costs(directory, "a"), std::runtime_error);
  CHECK_THROWS_AS(write_encoder_costs(directory, "a", costs_of(5)), std::runtime_error);
  CHECK_FALSE(std::filesystem::exists(place.path() / "elsewhere"));
}
