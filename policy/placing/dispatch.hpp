// SPDX-License-Identifier: Apache-2.0
// Which of several workers gets a request. Policies see what a front can know:
// the request's length and promises, and each worker's outstanding work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace troupe {

struct WorkerLoad {
  std::uint32_t num_waiting = 0;
  std::uint32_t num_running = 0;
  // Tokens of requests it was given and has not ended: prompts, and answers as
  // long as they may become.
  std::uint64_t outstanding_tokens = 0;

  std::uint32_t num_requests() const { return num_waiting + num_running; }
};

struct DispatchQuestion {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;
};

// One thread. Policies that look at lengths (a multi-level queue over runtimes
// of different lengths) find them in the question.
class DispatchPolicy {
 public:
  virtual ~DispatchPolicy() = default;
  // The index of a worker. workers: at least one, the same number in each call.
  virtual std::size_t choose(const DispatchQuestion& question, std::span<const WorkerLoad> workers) = 0;
};

enum class DispatchKind : std::uint8_t {
  kRoundRobin,
  kLeastWork,      // fewest outstanding tokens
  kShortestQueue,  // fewest requests, waiting and running
  kPowerOfTwo,     // the shorter queue of two drawn at random
};

std::string_view name_of(DispatchKind kind);
// "round-robin", "least-work", "shortest-queue", "power-of-two". Throws
// std::runtime_error that names them all.
DispatchKind dispatch_from_name(std::string_view name);

// Ties go to the lowest index after the last chosen, in turn, so that idle
// workers share; the seed is for kPowerOfTwo.
std::unique_ptr<DispatchPolicy> make_dispatch_policy(DispatchKind kind, std::uint64_t seed);

}  // namespace troupe
