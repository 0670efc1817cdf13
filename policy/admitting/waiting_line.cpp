// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/waiting_line.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace troupe {

void WaitingLine::wait(Arrival request, std::uint64_t work) { waiting_[request] = {.work = work}; }

void WaitingLine::set_work(Arrival request, std::uint64_t work) {
  const auto found = waiting_.find(request);
  if (found != waiting_.end()) found->second.work = work;
}

void WaitingLine::start(Arrival request) {
  const auto found = waiting_.find(request);
  const std::uint64_t work = found->second.work;
  for (auto front = waiting_.begin(); front != found; ++front) front->second.overtaken_by += work;
  for (auto behind = std::next(found); behind != waiting_.end(); ++behind)
    behind->second.started_in_front += work;
  waiting_.erase(found);
}

void WaitingLine::withdraw(Arrival request) { waiting_.erase(request); }

std::optional<WaitingLine::Arrival> WaitingLine::next(const Question& may_start) const {
  const auto comes_before = [this](const Waiting& a, const Waiting& b) {
    if (order_ == AdmissionOrder::kArrival) return false;
    return order_ == AdmissionOrder::kLongestFirst ? a.work > b.work : a.work < b.work;
  };
  const std::pair<const Arrival, Waiting>* first = nullptr;
  double allowance = std::numeric_limits<double>::infinity();  // the least of all in front
  std::uint64_t in_front = 0;                                  // work that waits, its own included
  for (const auto& entry : waiting_) {
    const Waiting& waiting = entry.second;
    const bool may_pass = static_cast<double>(waiting.work) <= allowance;
    if (may_pass && (first == nullptr || comes_before(waiting, first->second)) && may_start(entry.first))
      first = &entry;
    in_front += waiting.work;
    const auto share = static_cast<double>(waiting.started_in_front + in_front);
    allowance = std::min(allowance, (most_wait_ - 1) * share - static_cast<double>(waiting.overtaken_by));
  }
  return first ? std::optional(first->first) : std::nullopt;
}

}  // namespace troupe
