// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_history.hpp"

#include <algorithm>

namespace troupe {

void LengthHistory::add(std::uint32_t num_tokens) {
  if (in_order_.size() == kMostAnswers) {
    sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), in_order_.front()));
    in_order_.pop_front();
  }
  in_order_.push_back(num_tokens);
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), num_tokens), num_tokens);
}

std::uint32_t LengthHistory::length_at(double rank, std::uint32_t num_generated,
                                       std::uint32_t max_tokens) const {
  const auto first = std::upper_bound(sorted_.begin(), sorted_.end(), num_generated);
  const auto num_longer = static_cast<std::size_t>(sorted_.end() - first);
  const std::size_t num_missing = kFewAnswers - std::min(kFewAnswers, sorted_.size());
  const auto place = static_cast<std::size_t>(rank * static_cast<double>(num_longer + num_missing + 1));
  return place < num_longer ? std::min(first[static_cast<std::ptrdiff_t>(place)], max_tokens) : max_tokens;
}

}  // namespace troupe
