// SPDX-License-Identifier: Apache-2.0
// Lengths of the last answers, of which some are only known to be longer than what was
// seen: they were cut off by max_tokens or left by their clients. Their quantiles are by
// Kaplan and Meier's estimate, which lets an answer that was cut off count for all
// lengths beyond. So do those that run: without them, right after a start or a change, the
// first ones to end would stand for all, and they are short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <unordered_map>
#include <vector>

namespace troupe {

struct SeenLength {
  std::uint32_t num_tokens = 0;
  bool is_whole = true;  // it ended by itself
};

// The order by length; where two are equal, the whole one is the shorter one.
bool is_shorter(SeenLength a, SeenLength b);

class CensoredLengths {
 public:
  static constexpr std::size_t kMostLengths = 128;
  static constexpr std::uint32_t kBeyond = std::numeric_limits<std::uint32_t>::max();

  void add(SeenLength length);

  // An answer that runs has so many tokens; 0: it runs no more. Each counts once, with what was said last.
  void run(std::uint64_t answer, std::uint32_t num_tokens);

  // The least length that a share `rank` of answers does not exceed, in (0, 1);
  // kBeyond if too many were cut off to tell, or nothing is known.
  std::uint32_t quantile(double rank) const;

  std::size_t size() const { return newest_.size(); }
  const std::deque<SeenLength>& in_order() const { return newest_; }  // of their ends

 private:
  std::deque<SeenLength> newest_;
  std::vector<SeenLength> sorted_;
  std::unordered_map<std::uint64_t, std::uint32_t> running_;  // tokens by answer
  std::vector<std::uint32_t> sorted_running_;                 // so, too, and sorted
};

}  // namespace troupe
