// SPDX-License-Identifier: Apache-2.0
// One answer's way from the engine to its connection: where the engine
// delivers, and how much of it the client has not taken yet.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "actors/engine.hpp"
#include "actors/request/answer/answer_items.hpp"
#include "http/server/outbox.hpp"
#include "telemetry/metrics/metrics.hpp"

namespace troupe {

class Connection;

enum class Delivery : std::uint8_t {
  kEvents,  // each event goes to the io thread as it comes
  kWhole,   // text and tokens are collected here; only the end wakes the io thread
};

class ClientStream final : public ResponseSink, public std::enable_shared_from_this<ClientStream> {
 public:
  // choice: which of several answers to one request.
  ClientStream(std::shared_ptr<Outbox> outbox, Connection* connection, Delivery delivery, Gauge backlog,
               std::uint32_t choice = 0)
      : outbox_(std::move(outbox)),
        delivery_(delivery),
        backlog_(backlog),
        choice_(choice),
        connection_(connection) {}
  ~ClientStream() override;

  // Engine threads.
  void deliver(ResponseEvent event) override;
  std::size_t pending_bytes() const noexcept override {
    return pending_bytes_.load(std::memory_order_relaxed);
  }

  // The rest belongs to the io thread.

  // The client has taken all that was delivered up to now and handled. Returns
  // true if so much had been pending that the engine may have paused.
  bool take_all();
  void handled(const ResponseEvent& event) { num_handled_bytes_ += cost(event); }
  // kEvents, of an answer that is sent whole all the same.
  void collect(const TextDelta& delta) { answer_.add(delta); }
  // After the terminal event, of kWhole or what was collected.
  AnswerItems take_answer() { return std::exchange(answer_, {}); }

  std::uint32_t choice() const { return choice_; }
  Connection* connection() const { return connection_; }
  void detach() { connection_ = nullptr; }

 private:
  static std::size_t cost(const ResponseEvent& event);

  const std::shared_ptr<Outbox> outbox_;
  const Delivery delivery_;
  const Gauge backlog_;  // of all streams, bytes
  const std::uint32_t choice_;
  // Engine threads until the terminal event, then the io thread.
  AnswerItems answer_;
  std::atomic<std::size_t> pending_bytes_ = 0;
  std::size_t num_handled_bytes_ = 0;
  Connection* connection_;  // null once the answer is not awaited
};

}  // namespace troupe
