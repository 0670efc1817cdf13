// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/waiting_line.hpp"

#include <algorithm>
#include <limits>

namespace troupe {

void WaitingLine::wait(Arrival request, std::uint64_t work) {
  if (const auto started = started_.find(request); started != started_.end())
    count_in_front(request, started->second, 0 - started->second.work);
  waiting_[request] = {.work = work, .since = num_starts_};
}

void WaitingLine::set_work(Arrival request, std::uint64_t work) {
  const auto waiting = waiting_.find(request);
  if (waiting != waiting_.end()) {
    waiting->second.work = work;
  } else if (const auto started = started_.find(request); started != started_.end()) {
    revise(request, started->second, work);
  }
}

void WaitingLine::start(Arrival request) {
  const auto found = waiting_.find(request);
  const Started started{.work = found->second.work, .number = ++num_starts_};
  waiting_.erase(found);
  started_[request] = started;
  count_in_front(request, started, started.work);
  count_overtaking(request, started, started.work);
}

void WaitingLine::withdraw(Arrival request) {
  const auto found = waiting_.find(request);
  const std::uint64_t work = found->second.work;
  waiting_.erase(found);
  const auto started = started_.find(request);
  if (started == started_.end()) return;
  count_in_front(request, started->second, started->second.work);
  revise(request, started->second, work);
}

void WaitingLine::end(Arrival request, std::uint64_t work) {
  set_work(request, work);
  started_.erase(request);
}

void WaitingLine::revise(Arrival request, Started& started, std::uint64_t work) {
  count_in_front(request, started, work - started.work);
  count_overtaking(request, started, work - started.work);
  started.work = work;
}

// Adds the work to the sums of those behind that waited when the request started. They are unsigned, so what
// is taken off wraps around as it was added.
void WaitingLine::count_in_front(Arrival request, const Started& started, std::uint64_t work) {
  if (work == 0) return;
  for (auto other = waiting_.upper_bound(request); other != waiting_.end(); ++other)
    if (other->second.since < started.number) other->second.started_in_front += work;
}

// Adds it so, too, to the sums of those that the request overtook.
void WaitingLine::count_overtaking(Arrival request, const Started& started, std::uint64_t work) {
  if (work == 0) return;
  const auto end = waiting_.lower_bound(request);
  for (auto other = waiting_.begin(); other != end; ++other)
    if (other->second.since < started.number) other->second.overtaken_by += work;
}

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
