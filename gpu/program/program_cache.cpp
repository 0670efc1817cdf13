// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/program_cache.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace troupe {

std::uint32_t token_bin(std::uint32_t count, std::uint32_t max) {
  if (count <= 8) return std::min(std::max(count, 1U), max);
  const std::uint32_t step = std::bit_floor(count - 1) / 8;
  const std::uint64_t bin = (std::uint64_t{count} + step - 1) / step * step;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bin, max));
}

std::uint32_t output_row_bin(std::uint32_t count, std::uint32_t max) {
  return std::min(count == 0 ? 0U : std::bit_ceil(count), max);
}

ProgramCache::ProgramCache(std::shared_ptr<const Network> network, DataType compute_type,
                           ProgramShape largest)
    : network_(std::move(network)), compute_type_(compute_type), largest_(largest) {
  // A device may have more slots than a batch has tokens, of which each is at most one row.
  largest_.max_output_rows = std::min(largest.max_output_rows, largest.max_tokens);
}

std::shared_ptr<const Program> ProgramCache::find(CellId cell, std::uint32_t num_tokens,
                                                  std::uint32_t num_output_rows) {
  if (num_tokens > largest_.max_tokens || num_output_rows > largest_.max_output_rows) {
    throw std::runtime_error(
        "a batch of " + std::to_string(num_tokens) + " tokens and " + std::to_string(num_output_rows) +
        " output rows is larger than the largest program (" + std::to_string(largest_.max_tokens) + ", " +
        std::to_string(largest_.max_output_rows) + ")");
  }
  Key key{cell,
          {token_bin(num_tokens, largest_.max_tokens),
           output_row_bin(num_output_rows, largest_.max_output_rows)}};
  if (const auto found = programs_.find(key); found != programs_.end()) {
    recency_.splice(recency_.begin(), recency_, found->second.recency);
    return found->second.program;
  }
  auto program = std::make_shared<const Program>(network_->build_program(cell, key.shape, compute_type_));
  if (programs_.size() == kCapacity) {
    programs_.erase(recency_.back());
    recency_.pop_back();
  }
  recency_.push_front(key);
  programs_.emplace(std::move(key), Entry{program, recency_.begin()});
  return program;
}

}  // namespace troupe
