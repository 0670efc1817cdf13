// SPDX-License-Identifier: Apache-2.0
// The lengths of the last answers, as a guess at how long one that runs will be: one of
// those that were longer than what it has (Past-Future scheduling, ASPLOS 2025). Knows
// nothing of the request itself.
//
// A length is one that took memory: an answer that was cut off counts with what it had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace troupe {

class LengthHistory {
 public:
  static constexpr std::size_t kMostAnswers = 200;
  // As long as fewer answers are known, the rest counts as being as long as can be.
  static constexpr std::size_t kFewAnswers = 32;

  void add(std::uint32_t num_tokens);  // an answer has ended

  // The whole length of an answer that has num_generated tokens and ends at
  // max_tokens: at place `rank`, in [0, 1), among the known ones that were longer, with
  // max_tokens behind them. Ranks spread evenly give lengths spread as those were.
  std::uint32_t length_at(double rank, std::uint32_t num_generated, std::uint32_t max_tokens) const;

  const std::vector<std::uint32_t>& sorted() const { return sorted_; }

 private:
  std::deque<std::uint32_t> in_order_;  // of their ends
  std::vector<std::uint32_t> sorted_;
};

}  // namespace troupe
