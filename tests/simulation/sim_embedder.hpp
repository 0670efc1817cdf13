// SPDX-License-Identifier: Apache-2.0
// One client of the simulated server that asks for vectors: knows what they must be, and
// checks the answer; may disappear.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/request/embedding_request.hpp"
#include "tests/simulation/sim_world.hpp"

namespace troupe::sim {

struct EmbedderPlan {
  EmbeddingRequest request;
  std::chrono::nanoseconds submit_after{0};
  std::optional<std::chrono::nanoseconds> cancel_after;  // after it was submitted
  std::optional<std::uint32_t> cancel_after_steps;       // messages, of any actor
  std::optional<std::vector<float>> tree_numbers;        // of trees: those of all nodes
};

class SimEmbedder final : public ResponseSink, public std::enable_shared_from_this<SimEmbedder> {
 public:
  SimEmbedder(SimWorld& world, EmbedderPlan plan) : world_(world), plan_(std::move(plan)) {}

  void start();
  void deliver(ResponseEvent event) override;
  std::size_t pending_bytes() const noexcept override { return 0; }

  void cancel();
  // Drained at the deadline: as if it had been cancelled by its client.
  void expect_cancel() { was_cancelled_ = true; }
  // Of the request, and of its inputs' sequences: [id, id + num_inputs).
  RequestId id() const { return id_; }
  std::size_t num_inputs() const { return plan_.request.inputs.size(); }
  bool has_ended() const { return num_events_ > 0; }
  bool has_vectors() const { return has_vectors_; }
  const std::optional<ApiError>& error() const { return error_; }
  const EmbedderPlan& plan() const { return plan_; }

 private:
  void check(const Embedded& embedded);
  std::vector<std::int32_t> tokens_of(std::size_t input) const;
  void violate(const std::string& what);

  SimWorld& world_;
  EmbedderPlan plan_;
  RequestId id_ = 0;
  int num_events_ = 0;
  bool was_cancelled_ = false;
  bool has_vectors_ = false;
  std::optional<ApiError> error_;
};

}  // namespace troupe::sim
