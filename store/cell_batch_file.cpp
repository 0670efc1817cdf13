// SPDX-License-Identifier: Apache-2.0
#include "store/cell_batch_file.hpp"

#include <limits>
#include <stdexcept>

#include "store/number_file.hpp"

namespace troupe {

const char* const kCellBatchFile = "cell-batches.sqlite";

namespace {

NumberFile number_file() { return {.name = kCellBatchFile, .table = "batch", .column = "nodes"}; }

}  // namespace

std::vector<std::uint32_t> read_cell_batches(const StateDirectory& directory, const std::string& key,
                                             std::size_t num_cells) {
  std::vector<std::uint32_t> max_batches;
  for (const std::int64_t number : read_numbers(directory, number_file(), key, num_cells)) {
    if (number < 1 || number > std::numeric_limits<std::uint32_t>::max())
      throw std::runtime_error("a batch of " + std::to_string(number) + " nodes");
    max_batches.push_back(static_cast<std::uint32_t>(number));
  }
  if (!max_batches.empty() && max_batches.size() != num_cells)
    throw std::runtime_error("expected sizes of " + std::to_string(num_cells) + " cells");
  return max_batches;
}

void write_cell_batches(const StateDirectory& directory, const std::string& key,
                        const std::vector<std::uint32_t>& max_batches) {
  write_numbers(directory, number_file(), key,
                std::vector<std::int64_t>(max_batches.begin(), max_batches.end()));
}

}  // namespace troupe
