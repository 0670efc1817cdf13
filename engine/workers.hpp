// SPDX-License-Identifier: Apache-2.0
// The workers of one core, by WorkerId, as far as every kind of core has them: which
// incarnation an event is of, which batch a result is of, and what is in flight.
//
// Worker has a `WorkerHealth health` and a sequence of `Flight in_flight`, oldest first;
// Flight has a `batch_id` and gives health an `owed()`.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/command.hpp"
#include "engine/event.hpp"
#include "engine/trouble.hpp"
#include "engine/worker_health.hpp"

namespace troupe {

template <class Worker>
class Workers {
 public:
  using TimePoint = WorkerHealth::TimePoint;
  using Flights = decltype(Worker::in_flight);
  using Flight = typename Flights::value_type;

  std::size_t size() const { return workers_.size(); }
  Worker& operator[](WorkerId id) { return workers_[id]; }
  const Worker& operator[](WorkerId id) const { return workers_[id]; }
  auto begin() { return workers_.begin(); }
  auto end() { return workers_.end(); }
  auto begin() const { return workers_.begin(); }
  auto end() const { return workers_.end(); }

  bool is_up(WorkerId id) const { return id < size() && workers_[id].health.is_up; }
  bool is_any_up() const {
    return std::any_of(begin(), end(), [](const Worker& worker) { return worker.health.is_up; });
  }
  std::size_t num_in_flight(WorkerId id) const { return id < size() ? workers_[id].in_flight.size() : 0; }
  std::size_t num_in_flight() const {  // batches
    std::size_t count = 0;
    for (const Worker& worker : workers_) count += worker.in_flight.size();
    return count;
  }
  Trouble trouble() const {
    TroubleOfWorkers trouble;
    for (const Worker& worker : workers_) trouble.add(worker.health);
    return trouble.result();
  }

  // Makes a place for it. False: the incarnation is no newer than the one that is known.
  bool expect(const WorkerReady& event) {
    if (event.worker >= size()) workers_.resize(event.worker + 1);
    return event.epoch > workers_[event.worker].health.epoch;
  }
  // The batch that is done, which was the oldest. nullopt: of a device that is gone.
  std::optional<Flight> take_done(const BatchDone& event) {
    if (!is_known(event.worker, event.epoch)) return std::nullopt;
    Flights& in_flight = workers_[event.worker].in_flight;
    if (in_flight.empty() || in_flight.front().batch_id != event.result.batch_id) return std::nullopt;
    std::optional<Flight> done(std::move(in_flight.front()));
    in_flight.erase(in_flight.begin());
    return done;
  }
  // Gives what was in flight; the worker is down. nullopt: it was, or has come back since.
  std::optional<Flights> take_lost(const WorkerLost& event, TimePoint now) {
    if (!is_known(event.worker, event.epoch) || !is_up(event.worker)) return std::nullopt;
    workers_[event.worker].health.go_down(now);
    return std::exchange(workers_[event.worker].in_flight, {});
  }
  void wait_for_others(WorkerId id, TimePoint now) {
    if (id < size()) workers_[id].health.wait_for_others(now);
  }
  // Messages for the supervisor about devices that have been silent for too long.
  std::vector<WorkerStalled> look(TimePoint now) {
    std::vector<WorkerStalled> stalled;
    for (WorkerId id = 0; id < size(); ++id) {
      Worker& worker = workers_[id];
      std::optional<WorkerHealth::Owed> owed;
      if (!worker.in_flight.empty()) owed = worker.in_flight.front().owed();
      if (auto found = worker.health.look(id, owed, is_last_loss(worker), now))
        stalled.push_back(*std::move(found));
    }
    return stalled;
  }

 private:
  bool is_known(WorkerId id, Epoch epoch) const { return id < size() && workers_[id].health.epoch == epoch; }
  // None is up, and this one was lost last.
  bool is_last_loss(const Worker& lost) const {
    return std::all_of(begin(), end(), [&](const Worker& worker) {
      return !worker.health.is_up && worker.health.lost <= lost.health.lost;
    });
  }

  std::vector<Worker> workers_;
};

}  // namespace troupe
