// SPDX-License-Identifier: Apache-2.0
// One client of the simulated server: knows what its answer must be and checks
// every event against it; may read slowly, hang up, or disappear.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/expected_answer.hpp"
#include "tests/simulation/sim_world.hpp"

namespace troupe::sim {

struct ClientPlan {
  GenerationRequest request;
  std::chrono::nanoseconds submit_after{0};
  std::optional<std::uint32_t> cancel_at_event;           // from inside the delivery
  std::optional<std::chrono::nanoseconds> cancel_after;   // after it was submitted
  std::optional<std::uint32_t> cancel_after_steps;        // messages, anybody's
  std::optional<std::chrono::nanoseconds> read_interval;  // none: reads at once
  bool is_refused = false;                                // it is expected to be
};

class SimClient final : public ResponseSink, public std::enable_shared_from_this<SimClient> {
 public:
  SimClient(SimWorld& world, ClientPlan plan);

  void start();

  void deliver(ResponseEvent event) override;
  std::size_t pending_bytes() const noexcept override { return unread_bytes_; }

  RequestId id() const { return id_; }
  bool has_ended() const { return num_terminal_ > 0; }
  bool was_cancelled() const { return was_cancelled_; }
  void cancel();
  // Drained at the deadline: as if it had been cancelled by its client.
  void expect_cancel() { was_cancelled_ = true; }
  const std::optional<ApiError>& error() const { return error_; }
  const std::optional<Finished>& finished() const { return finished_; }
  const std::string& text() const { return text_; }
  const std::string& calls() const { return calls_; }  // as add_calls() writes them
  const std::vector<AnswerToken>& tokens() const { return tokens_; }
  const ClientPlan& plan() const { return plan_; }
  std::uint32_t cached_tokens() const { return cached_tokens_; }

 private:
  void take(const Accepted& accepted);
  void take(const TextDelta& delta);
  void take(const Finished& finished);
  void take(const Failed& failed);
  void take(const StoreAnswer&) { violate("an answer of the store"); }
  void take(const Embedded&) { violate("vectors"); }
  void take(const EncodedText&) { violate("tokens"); }
  void take(const Journaled&) { violate("journaled"); }
  void read_later();
  void check_tokens();
  void violate(const std::string& what);

  SimWorld& world_;
  ClientPlan plan_;
  ExpectedAnswer expected_;
  RequestId id_ = 0;
  std::string text_, calls_;
  std::vector<AnswerToken> tokens_;
  std::size_t unread_bytes_ = 0;
  std::uint32_t num_events_ = 0;
  std::uint32_t num_tokens_ = 0;
  std::uint32_t cached_tokens_ = 0;
  int num_terminal_ = 0;
  bool is_accepted_ = false;
  bool was_cancelled_ = false;
  std::optional<Finished> finished_;
  std::optional<ApiError> error_;
};

}  // namespace troupe::sim
