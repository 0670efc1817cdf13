// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/fair_queue.hpp"

#include <algorithm>
#include <limits>

namespace troupe {

FairQueue::FlowId FairQueue::join(const std::string& name) {
  const auto [place, is_new] = by_name_.try_emplace(name, last_flow_ + 1);
  if (is_new) {
    Flow& flow = flows_[++last_flow_];
    flow.name = name;
    if (order_ != AdmissionOrder::kArrival) flow.line.emplace(order_, most_wait_);
  }
  Flow& flow = flows_.at(place->second);
  if (flow.num_requests++ == 0) debtors_.erase({flow.served, place->second});
  return place->second;
}

void FairQueue::leave(FlowId id) {
  Flow& flow = flows_.at(id);
  if (--flow.num_requests == 0) debtors_.emplace(flow.served, id);
  if (!debtors_.empty()) forget_paid_debts();
}

void FairQueue::wait(FlowId id, Arrival request, std::uint64_t work) {
  if (num_waiting_ == 0) begin_anew();
  Flow& flow = flows_.at(id);
  if (flow.waiting.empty()) {
    if (num_waiting_ > 0) flow.served = std::max(flow.served, smallest_waiting());
    if (!flow.is_active()) num_flows_active_ += 1;
    num_flows_waiting_ += 1;
  }
  flow.waiting.insert(request);
  if (flow.line) flow.line->wait(request, work);
  num_waiting_ += 1;
}

void FairQueue::set_work(FlowId id, Arrival request, std::uint64_t work) {
  Flow& flow = flows_.at(id);
  if (flow.line) flow.line->set_work(request, work);
}

void FairQueue::end(FlowId id, Arrival request, std::uint64_t work) {
  Flow& flow = flows_.at(id);
  if (flow.line) flow.line->end(request, work);
}

void FairQueue::withdraw(FlowId id, Arrival request) {
  Flow& flow = flows_.at(id);
  if (flow.line) flow.line->withdraw(request);
  end_wait(flow, request);
  if (!flow.is_active()) num_flows_active_ -= 1;
}

void FairQueue::start(FlowId id, Arrival request) {
  Flow& flow = flows_.at(id);
  if (flow.line) flow.line->start(request);
  end_wait(flow, request);
  flow.num_running += 1;
}

void FairQueue::stop(FlowId id) {
  Flow& flow = flows_.at(id);
  flow.num_running -= 1;
  if (!flow.is_active()) num_flows_active_ -= 1;
}

void FairQueue::charge(FlowId id, std::uint64_t cost) { flows_.at(id).served += cost; }

std::optional<FairQueue::Arrival> FairQueue::next(const Question& may_start) const {
  if (promised_ && may_start(*promised_)) return promised_;
  const auto chosen = choose(may_start);
  return chosen ? std::optional(chosen->request) : std::nullopt;
}

std::optional<FairQueue::Arrival> FairQueue::next(const Question& may_start, const Question& fits) const {
  if (promised_ && may_start(*promised_)) return promised_;
  const auto chosen = choose(may_start);
  if (!chosen) return std::nullopt;
  const auto fitting =
      first_of(*chosen->flow, [&](Arrival request) { return may_start(request) && fits(request); });
  return fitting ? fitting : chosen->request;
}

std::optional<FairQueue::Chosen> FairQueue::choose(const Question& may_start) const {
  std::optional<Turn> first;
  const Flow* its_flow = nullptr;
  for (const auto& [id, flow] : flows_) {
    if (flow.waiting.empty()) continue;
    const Turn best{flow.served, flow.num_running, *flow.waiting.begin()};
    if (first && *first < best) continue;
    const auto request = first_of(flow, may_start);
    if (!request) continue;
    const Turn turn{flow.served, flow.num_running, *request};
    if (first && *first < turn) continue;
    first = turn;
    its_flow = &flow;
  }
  if (!first) return std::nullopt;
  return Chosen{.flow = its_flow, .request = first->request};
}

std::optional<FairQueue::Arrival> FairQueue::first_of(const Flow& flow, const Question& may_start) {
  if (flow.line) return flow.line->next(may_start);
  const auto oldest = std::find_if(flow.waiting.begin(), flow.waiting.end(), may_start);
  return oldest == flow.waiting.end() ? std::nullopt : std::optional(*oldest);
}

std::vector<FairQueue::Arrival> FairQueue::in_turn() const {
  std::vector<std::pair<Turn, const Flow*>> waiting;
  for (const auto& [id, flow] : flows_)
    if (!flow.waiting.empty())
      waiting.push_back({{flow.served, flow.num_running, *flow.waiting.begin()}, &flow});
  std::sort(waiting.begin(), waiting.end());
  std::vector<Arrival> requests;
  for (const auto& [turn, flow] : waiting)
    requests.insert(requests.end(), flow->waiting.begin(), flow->waiting.end());
  return requests;
}

std::optional<FairQueue::Arrival> FairQueue::choose_displaced(const std::string& newcomer,
                                                              const Question& may_go) const {
  const auto known = by_name_.find(newcomer);
  const std::size_t num_own = known == by_name_.end() ? 0 : flows_.at(known->second).num_active();
  std::optional<std::pair<std::size_t, Arrival>> most;  // requests of the flow, its newest
  for (const auto& [id, flow] : flows_) {
    if (flow.num_active() <= num_own + 1) continue;
    if (most && flow.num_active() < most->first) continue;
    const auto newest = std::find_if(flow.waiting.rbegin(), flow.waiting.rend(), may_go);
    if (newest == flow.waiting.rend()) continue;
    most = std::max(most, std::optional(std::pair(flow.num_active(), *newest)));
  }
  if (!most) return std::nullopt;
  return most->second;
}

void FairQueue::begin_anew() {
  while (!debtors_.empty()) forget(debtors_.begin()->second);
  for (auto& [id, flow] : flows_) flow.served = 0;
}

std::uint64_t FairQueue::smallest_waiting() const {
  auto smallest = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [id, flow] : flows_)
    if (!flow.waiting.empty()) smallest = std::min(smallest, flow.served);
  return smallest;
}

void FairQueue::end_wait(Flow& flow, Arrival request) {
  if (promised_ == request) promised_.reset();
  flow.waiting.erase(request);
  num_waiting_ -= 1;
  if (flow.waiting.empty()) num_flows_waiting_ -= 1;
}

void FairQueue::forget(FlowId id) {
  const auto found = flows_.find(id);
  debtors_.erase({found->second.served, id});
  by_name_.erase(found->second.name);
  flows_.erase(found);
}

// No one waits: nothing is owed to anyone.
void FairQueue::forget_paid_debts() {
  const auto paid = smallest_waiting();
  while (!debtors_.empty() && (debtors_.begin()->first <= paid || debtors_.size() > kMostDebtors))
    forget(debtors_.begin()->second);
}

}  // namespace troupe
