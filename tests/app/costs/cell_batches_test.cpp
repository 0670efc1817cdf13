// SPDX-License-Identifier: Apache-2.0
#include "app/costs/cell_batches.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/measurement_files.hpp"
#include "tests/support/random_cells.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

using Sizes = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("cell batches: they are measured once, and again where their file is damaged") {
  const test::TemporaryDirectory root;
  const LoadedModel model = test::load_random_cells(root.path() / "model", "seq2seq", 40);
  const StateDirectory directory(root.path() / "state");
  const Sizes measured = cell_batches(model, &directory);
  REQUIRE(measured.size() == 2);
  CHECK(std::all_of(measured.begin(), measured.end(), [](auto size) { return size >= 1 && size <= 16; }));
  const std::string key = cell_batch_key(model);
  CHECK(read_cell_batches(directory, key, 2) == measured);
  write_cell_batches(directory, key, {3, 5});  // no power of two: kept ones are taken as they are
  CHECK(cell_batches(model, &directory) == Sizes{3, 5});

  std::ofstream(directory.path() / kCellBatchFile, std::ios::trunc) << std::string(5000, 'x');
  CHECK(cell_batches(model, &directory).size() == 2);
  CHECK(read_cell_batches(directory, key, 2).size() == 2);
}

TEST_CASE("cell batches: those of other sizes or batches have another key") {
  const test::TemporaryDirectory root;
  LoadedModel model = test::load_random_cells(root.path() / "model", "lstm", 40);
  const std::string key = cell_batch_key(model);
  model.options.serving.max_batch_tokens = 128;
  CHECK(cell_batch_key(model) != key);
  CHECK(cell_batch_key(test::load_random_cells(root.path() / "other", "lstm", 41)) != key);
}

TEST_CASE("cell batches: a device that can't be made leaves batches of any size") {
  const test::TemporaryDirectory root;
  LoadedModel model = test::load_random_cells(root.path() / "model", "lstm", 40);
  model.make_device = [](WorkerId) -> std::unique_ptr<Device> { throw std::runtime_error("no device"); };
  CHECK(cell_batches(model, nullptr).empty());
}
