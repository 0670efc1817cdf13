// SPDX-License-Identifier: Apache-2.0
// One answer's way from the engine to its connection: where the engine
// delivers, and how much of it the client has not taken yet.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "http/outbox.hpp"
#include "telemetry/metrics.hpp"

namespace troupe {

class Connection;

enum class Delivery : std::uint8_t {
  kEvents,  // each event goes to the io thread as it comes
  kWhole,   // text and tokens are collected here; only the end wakes the io thread
};

class ClientStream final : public ResponseSink, public std::enable_shared_from_this<ClientStream> {
 public:
  ClientStream(std::shared_ptr<Outbox> outbox, Connection* connection, Delivery delivery, Gauge backlog)
      : outbox_(std::move(outbox)), delivery_(delivery), backlog_(backlog), connection_(connection) {}
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
  // kWhole, after the terminal event.
  const std::string& whole_text() const { return text_; }
  const std::vector<AnswerToken>& whole_tokens() const { return tokens_; }

  Connection* connection() const { return connection_; }
  void detach() { connection_ = nullptr; }

 private:
  void add(TextDelta delta);
  static std::size_t cost(const ResponseEvent& event);

  const std::shared_ptr<Outbox> outbox_;
  const Delivery delivery_;
  const Gauge backlog_;  // of all streams, bytes
  // Engine threads until the terminal event, then the io thread.
  std::string text_;
  std::vector<AnswerToken> tokens_;
  std::atomic<std::size_t> pending_bytes_ = 0;
  std::size_t num_handled_bytes_ = 0;
  Connection* connection_;  // null once nobody waits for the answer
};

}  // namespace troupe
