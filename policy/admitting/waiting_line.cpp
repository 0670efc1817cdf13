// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/waiting_line.hpp"

#include <algorithm>
#include <limits>

namespace troupe {

void WaitingLine::wait(Arrival request, std::uint64_t work) {
  double share = static_cast<double>(work);
  for (auto front = waiting_.begin(); front != waiting_.end() && front->first < request; ++front)
    share += static_cast<double>(front->second.work);
  waiting_[request] = {.work = work, .allowance = (most_wait_ - 1) * share};
}

void WaitingLine::set_work(Arrival request, std::uint64_t work) {
  const auto found = waiting_.find(request);
  if (found == waiting_.end()) return;
  Waiting& waiting = found->second;
  waiting.allowance += (most_wait_ - 1) * (static_cast<double>(work) - static_cast<double>(waiting.work));
  waiting.work = work;
}

void WaitingLine::start(Arrival request) {
  const auto found = waiting_.find(request);
  const auto work = static_cast<double>(found->second.work);
  for (auto front = waiting_.begin(); front != found; ++front) front->second.allowance -= work;
  waiting_.erase(found);
}

void WaitingLine::withdraw(Arrival request) { waiting_.erase(request); }

std::optional<WaitingLine::Arrival> WaitingLine::next(const Question& may_start) const {
  const auto comes_before = [this](const Waiting& a, const Waiting& b) {
    if (order_ == AdmissionOrder::kArrival) return false;
    return order_ == AdmissionOrder::kLongestFirst ? a.work > b.work : a.work < b.work;
  };
  const std::pair<const Arrival, Waiting>* first = nullptr;
  double allowance = std::numeric_limits<double>::infinity();  // of all in front
  for (const auto& entry : waiting_) {
    const Waiting& waiting = entry.second;
    const bool may_pass = static_cast<double>(waiting.work) <= allowance;
    if (may_pass && (first == nullptr || comes_before(waiting, first->second)) && may_start(entry.first))
      first = &entry;
    allowance = std::min(allowance, waiting.allowance);
  }
  return first ? std::optional(first->first) : std::nullopt;
}

}  // namespace troupe
