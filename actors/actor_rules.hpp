// SPDX-License-Identifier: Apache-2.0
// The rules every actor here keeps, in one place, because CAF 0.17.6 does
// otherwise by itself (all measured, see docs/decisions/):
//  * exit and cancel messages have normal priority: ours are urgent;
//  * the default handlers print messages, content and all: ours count;
//  * an exception loses its text: ours is logged and counted before the actor
//    dies, and its supervisor hears of it by a monitor;
//  * a short-lived actor that monitors a long-lived one leaks: requests monitor
//    none; the supervisor, the scheduler and workers do;
//  * promises that are dropped send no answer: there are none; what has to be
//    answered is owned by an object whose destructor answers (ResponseStream,
//    PageLease);
//  * destroying an actor_system waits for ever for an actor that does not end:
//    a census is taken, with a deadline, before that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/send.hpp>

#include "actors/engine.hpp"
#include "actors/engine_door.hpp"
#include "actors/reports/status_board.hpp"
#include "telemetry/metrics/metrics.hpp"
#include "telemetry/tracing/tracer.hpp"

namespace troupe {

class OutputForms;
class RequestRegistry;
class SharedVectors;
class TextQuota;
class TurnKeeping;

// How many actors' states exist. Any thread.
class ActorCensus {
 public:
  void enter();
  void leave();
  std::size_t count() const;
  bool wait_until_empty(std::chrono::milliseconds deadline) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable is_empty_;
  std::size_t count_ = 0;
};

// A member of every actor's state: counted from its first to its last moment.
class CensusEntry {
 public:
  explicit CensusEntry(std::shared_ptr<ActorCensus> census);
  ~CensusEntry();
  CensusEntry(const CensusEntry&) = delete;
  CensusEntry& operator=(const CensusEntry&) = delete;

 private:
  std::shared_ptr<ActorCensus> census_;
};

// Shared by all actors of an engine; outlives them.
struct ActorEnvironment {
  std::vector<EngineModel> models;  // by ModelIndex
  EngineOptions options;
  Metrics& metrics;
  Tracer* tracer = nullptr;  // null: nothing is traced
  std::shared_ptr<StatusBoard> board;
  std::shared_ptr<RequestRegistry> registry;
  std::shared_ptr<ActorCensus> census;
  std::shared_ptr<EngineDoor> door;
  std::shared_ptr<EngineDoor> searches;  // open ones, by their beams, to their end
  std::shared_ptr<TextQuota> prompt_text;
  std::shared_ptr<SharedVectors> vectors;  // null: none are kept
  std::shared_ptr<OutputForms> forms;
  std::shared_ptr<TurnMemory> turns;
  std::shared_ptr<TurnKeeping> kept_turns;  // null: they are not kept; the response store writes
  bool has_threads = true;                  // false in tests: what would be detached is scheduled
};
using Environment = std::shared_ptr<const ActorEnvironment>;

// Every actor calls this first.
void follow_rules(caf::scheduled_actor* self, Environment environment);

// Overtakes everything that waits in the mailbox already.
template <class Handle, class Message>
void send_urgent(const Handle& receiver, Message message) {
  caf::anon_send<caf::message_priority::high>(receiver, std::move(message));
}

template <caf::message_priority kPriority, class Handle>
void send_exit(const Handle& receiver) {
  if (!receiver) return;
  const auto plain = caf::actor_cast<caf::actor>(receiver);
  caf::anon_send<kPriority>(plain, caf::exit_msg{plain.address(), caf::exit_reason::user_shutdown});
}

// Before whatever waits for it.
template <class Handle>
void send_stop(const Handle& receiver) {
  send_exit<caf::message_priority::high>(receiver);
}

// When it has done all that was sent to it before.
template <class Handle>
void send_stop_behind_all(const Handle& receiver) {
  send_exit<caf::message_priority::normal>(receiver);
}

// Spawning leaves a reference to the system's logger with the thread, and the
// system's destructor waits until it is gone: for ever, if the thread is not one
// of CAF's. So threads of others spawn while one of these is alive.
class SpawnGuard {
 public:
  SpawnGuard() = default;
  ~SpawnGuard();
  SpawnGuard(const SpawnGuard&) = delete;
  SpawnGuard& operator=(const SpawnGuard&) = delete;
};

// On a thread of its own, except where tests want to run every step.
template <class Function, class... Arguments>
auto spawn_on_thread(caf::actor_system& system, bool has_threads, Function function,
                     Arguments&&... arguments) {
  if (has_threads) return system.spawn<caf::detached>(function, std::forward<Arguments>(arguments)...);
  return system.spawn(function, std::forward<Arguments>(arguments)...);
}

}  // namespace troupe
