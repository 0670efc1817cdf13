// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/censored_lengths.hpp"

#include <algorithm>

namespace troupe {

bool is_shorter(SeenLength a, SeenLength b) {
  return a.num_tokens != b.num_tokens ? a.num_tokens < b.num_tokens : a.is_whole && !b.is_whole;
}

void CensoredLengths::add(SeenLength length) {
  if (newest_.size() == kMostLengths) {
    sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), newest_.front(), is_shorter));
    newest_.pop_front();
  }
  newest_.push_back(length);
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), length, is_shorter), length);
}

void CensoredLengths::run(std::uint64_t answer, std::uint32_t num_tokens) {
  const auto before = running_.find(answer);
  if (before != running_.end()) {
    sorted_running_.erase(std::lower_bound(sorted_running_.begin(), sorted_running_.end(), before->second));
    running_.erase(before);
  }
  if (num_tokens == 0) return;
  running_.emplace(answer, num_tokens);
  sorted_running_.insert(std::upper_bound(sorted_running_.begin(), sorted_running_.end(), num_tokens),
                         num_tokens);
}

std::uint32_t CensoredLengths::quantile(double rank) const {
  constexpr double kRounding = 1e-9;
  double longer = 1;  // the share of answers beyond
  auto num_left = static_cast<double>(sorted_.size() + sorted_running_.size());
  auto running = sorted_running_.begin();
  for (const SeenLength& length : sorted_) {
    for (; running != sorted_running_.end() && *running < length.num_tokens; ++running) num_left -= 1;
    if (length.is_whole) longer *= 1 - 1 / num_left;
    num_left -= 1;
    if (length.is_whole && 1 - longer >= rank - kRounding) return length.num_tokens;
  }
  return kBeyond;
}

}  // namespace troupe
