// SPDX-License-Identifier: Apache-2.0
// Turns of the flows that have requests waiting. A flow is all that one
// tenant, or without keys one address, asks for. Each flow has a counter of the
// tokens it was served; the next request is the oldest one of the waiting flow
// with the smallest counter (virtual token counters: Sheng et al., Fairness in
// Serving Large Language Models, OSDI 2024). Equal counters: the flow that has
// fewer running, then the request that arrived first. With one flow that is the
// order of arrival. Within a flow another order may hold (policy/admitting/waiting_line.hpp).
//
//   join ──► wait ──start──► running ──stop──► wait again, or leave
//              └──withdraw──► leave
//
// Idleness earns no credit: a flow that begins to wait is lifted to the smallest
// counter of those that wait. A debt ends with the queue: when a request begins to
// wait and no other one does, all counters start again at 0. A flow without
// requests is forgotten, unless it was served more than the flow in turn: its
// counter stays until the others have caught up, for at most kMostDebtors flows.
//
// Lag: of two flows that wait all the time, neither gets ahead of the other by more
// than the most a flow can be charged from the moment it is in turn until it no
// longer is, which is its dearest prompt and what its running requests still draw.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/admitting/waiting_line.hpp"

namespace troupe {

class FairQueue {
 public:
  using FlowId = std::uint64_t;   // never given twice
  using Arrival = std::uint64_t;  // order of arrival; names a request
  using Question = std::function<bool(Arrival)>;

  // Costs of a token: one that is drawn takes a step of its own.
  static constexpr std::uint64_t kPromptTokenCost = 1;
  static constexpr std::uint64_t kDrawnTokenCost = 2;
  static constexpr std::size_t kMostDebtors = 1024;

  // most_wait: WaitingLine's, where the order is not that of arrival.
  explicit FairQueue(AdmissionOrder order = AdmissionOrder::kArrival, double most_wait = 1)
      : order_(order), most_wait_(most_wait) {}

  // One more request of the flow with that name is there; one fewer.
  FlowId join(const std::string& name);
  void leave(FlowId flow);
  // It does not wait and won't again; work: done for it, tokens of prompt and answer. Before leave().
  void end(FlowId flow, Arrival request, std::uint64_t work);

  // work: tokens of prompt and answer, as far as it is known; counts where the order is by it.
  void wait(FlowId flow, Arrival request, std::uint64_t work = 0);
  void set_work(FlowId flow, Arrival request, std::uint64_t work);  // of one that has waited
  void withdraw(FlowId flow, Arrival request);                      // it waits no longer, and does not run
  void start(FlowId flow, Arrival request);                         // it waits no longer, and runs
  void stop(FlowId flow);                                           // one of its requests runs no longer
  void charge(FlowId flow, std::uint64_t cost);
  // It is in turn, and others have given way for it: whatever happens to counters
  // meanwhile it stays in turn until it starts, or is withdrawn.
  void promise(Arrival request) { promised_ = request; }

  // The request in turn, of those for which may_start is true; nullopt: none.
  std::optional<Arrival> next(const Question& may_start) const;
  // By length, one that fits goes before one that does not (first fit): of the flow in turn
  // only. If none of its requests fits, the one in turn is given all the same, to wait for
  // room: requests of other flows must not take it from under it for ever.
  std::optional<Arrival> next(const Question& may_start, const Question& fits) const;
  // All that wait, flow by flow, as if none were charged.
  std::vector<Arrival> in_turn() const;
  // When the queue is full: the request that makes room for one of the flow with
  // that name. It is the newest waiting one, of those for which may_go is true, of
  // the flow with most requests, waiting and running; nullopt: the newcomer itself
  // is refused, because its flow would then have more than the other. So two flows
  // never push each other out by turns.
  std::optional<Arrival> choose_displaced(const std::string& newcomer, const Question& may_go) const;

  std::uint64_t served(FlowId flow) const { return flows_.at(flow).served; }
  std::size_t num_waiting() const { return num_waiting_; }
  std::size_t num_flows_waiting() const { return num_flows_waiting_; }
  std::size_t num_flows_active() const { return num_flows_active_; }  // waiting or running
  std::size_t num_flows_known() const { return flows_.size(); }

 private:
  friend class Fingerprint;
  struct Flow {
    std::string name;
    std::set<Arrival> waiting;
    std::optional<WaitingLine> line;  // the same, where the order is not that of arrival
    std::uint32_t num_running = 0;
    std::uint32_t num_requests = 0;  // joined, not left
    std::uint64_t served = 0;        // the counter

    bool is_active() const { return !waiting.empty() || num_running > 0; }
    std::size_t num_active() const { return waiting.size() + num_running; }
  };
  struct Turn {  // smaller: earlier
    std::uint64_t served = 0;
    std::uint32_t num_running = 0;
    Arrival request = 0;
    auto operator<=>(const Turn&) const = default;
  };

  struct Chosen {
    const Flow* flow = nullptr;
    Arrival request = 0;
  };
  std::optional<Chosen> choose(const Question& may_start) const;
  static std::optional<Arrival> first_of(const Flow& flow, const Question& may_start);
  void begin_anew();
  std::uint64_t smallest_waiting() const;
  void end_wait(Flow& flow, Arrival request);
  void forget(FlowId flow);
  void forget_paid_debts();

  AdmissionOrder order_;
  double most_wait_;
  std::map<FlowId, Flow> flows_;
  std::unordered_map<std::string, FlowId> by_name_;
  std::set<std::pair<std::uint64_t, FlowId>> debtors_;  // by counter; have no request
  FlowId last_flow_ = 0;
  std::optional<Arrival> promised_;
  std::size_t num_waiting_ = 0, num_flows_waiting_ = 0, num_flows_active_ = 0;
};

}  // namespace troupe
