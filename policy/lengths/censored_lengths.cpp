// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/censored_lengths.hpp"

#include <algorithm>

namespace troupe {
namespace {

bool is_shorter(const SeenLength& a, const SeenLength& b) {
  return a.num_tokens != b.num_tokens ? a.num_tokens < b.num_tokens : a.is_whole && !b.is_whole;
}

}  // namespace

void CensoredLengths::add(SeenLength length) {
  if (newest_.size() == kMostLengths) {
    sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), newest_.front(), is_shorter));
    newest_.pop_front();
  }
  newest_.push_back(length);
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), length, is_shorter), length);
}

void CensoredLengths::run(std::uint32_t before, std::uint32_t now) {
  if (before > 0) {
    const auto found = std::lower_bound(running_.begin(), running_.end(), before);
    if (found != running_.end() && *found == before) running_.erase(found);
  }
  if (now > 0 && running_.size() < kMostRunning)
    running_.insert(std::upper_bound(running_.begin(), running_.end(), now), now);
}

std::uint32_t CensoredLengths::quantile(double rank) const {
  constexpr double kRounding = 1e-9;
  double longer = 1;  // the share of answers beyond
  auto num_left = static_cast<double>(sorted_.size() + running_.size());
  auto running = running_.begin();
  for (const SeenLength& length : sorted_) {
    for (; running != running_.end() && *running < length.num_tokens; ++running) num_left -= 1;
    if (length.is_whole) longer *= 1 - 1 / num_left;
    num_left -= 1;
    if (length.is_whole && 1 - longer >= rank - kRounding) return length.num_tokens;
  }
  return kBeyond;
}

}  // namespace troupe
