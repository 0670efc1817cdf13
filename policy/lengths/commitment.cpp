// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/commitment.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

struct Peak {
  std::uint64_t num_left = 0, num_held = 0, most = 0;
  std::uint64_t num_longer = 0;  // that will take more than the last one
  std::uint32_t last_more = 0;

  void take(const Commitment& next) {
    if (next.num_more != last_more) num_longer = num_left;
    last_more = next.num_more;
    num_left += 1;
    num_held += next.num_held;
    most = std::max(most, num_held + num_left * next.num_more + num_longer);
  }
};

}  // namespace

Commitments::Commitments(std::vector<Commitment> running) : running_(std::move(running)) {
  std::sort(running_.begin(), running_.end(),
            [](const Commitment& a, const Commitment& b) { return a.num_more > b.num_more; });
}

std::uint64_t Commitments::peak() const {
  Peak peak;
  for (const Commitment& one : running_) peak.take(one);
  return peak.most;
}

std::uint64_t Commitments::peak_with(const Commitment& newcomer) const {
  Peak peak;
  auto next = running_.begin();
  for (; next != running_.end() && next->num_more > newcomer.num_more; ++next) peak.take(*next);
  peak.take(newcomer);
  for (; next != running_.end(); ++next) peak.take(*next);
  return peak.most;
}

}  // namespace troupe
