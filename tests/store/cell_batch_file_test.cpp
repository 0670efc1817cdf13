// SPDX-License-Identifier: Apache-2.0
#include "store/measurement_files.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "store/sqlite/sqlite.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

using Sizes = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("cell batch file: sizes are kept by key, the last ones written") {
  const test::TemporaryDirectory place;
  const StateDirectory directory(place.path() / "state");
  CHECK(read_cell_batches(directory, "a", 2).empty());
  write_cell_batches(directory, "a", {512, 256});
  write_cell_batches(directory, "b", {64});
  CHECK(read_cell_batches(directory, "a", 2) == Sizes{512, 256});
  CHECK(read_cell_batches(directory, "b", 1) == Sizes{64});
  write_cell_batches(directory, "a", {32});  // of fewer cells: none of the old ones is left
  CHECK(read_cell_batches(directory, "a", 1) == Sizes{32});
}

TEST_CASE("cell batch file: what can't be sizes is an error, and is written over") {
  const test::TemporaryDirectory place;
  const StateDirectory directory(place.path() / "state");
  const auto file = directory.path() / kCellBatchFile;
  std::ofstream(file) << std::string(5000, 'x');
  CHECK_THROWS_AS(read_cell_batches(directory, "a", 1), std::runtime_error);
  write_cell_batches(directory, "a", {8, 16});
  CHECK_THROWS_WITH(read_cell_batches(directory, "a", 1), "expected sizes of 1 cells");
  CHECK_THROWS_WITH(read_cell_batches(directory, "a", 3), "expected sizes of 3 cells");
  for (const char* bad : {"0", "-4", "4294967296"}) {
    SqliteDatabase(file).execute(std::string("UPDATE batch SET nodes = ") + bad + " WHERE point = 1");
    CHECK_THROWS_WITH(read_cell_batches(directory, "a", 2),
                      (std::string("a batch of ") + bad + " nodes").c_str());
  }
  write_cell_batches(directory, "a", {8, 16});
  CHECK(read_cell_batches(directory, "a", 2) == Sizes{8, 16});
}
