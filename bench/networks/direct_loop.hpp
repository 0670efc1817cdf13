// SPDX-License-Identifier: Apache-2.0
// The network without actors: batches built by hand and submitted in a loop.
// The engine's overhead is measured against this.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/cpu/cpu_device.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe::bench {

class DirectLoop {
 public:
  // Sequences get fixed pages for `length` tokens each.
  DirectLoop(std::shared_ptr<const CpuModel> model, std::uint32_t num_sequences, std::uint32_t length);
  ~DirectLoop();
  DirectLoop(const DirectLoop&) = delete;
  DirectLoop& operator=(const DirectLoop&) = delete;

  // Prefills every sequence with `num_tokens` tokens, whole prompts, one
  // sequence a batch. Seconds.
  double prefill(std::uint32_t num_tokens);

  // Advances every sequence by one token, `steps` times, two batches in flight.
  // Seconds of wall time; adds the device's own time to network_seconds.
  double decode(std::uint32_t steps, double& network_seconds);

 private:
  std::shared_ptr<const Batch> decode_batch(std::uint32_t position) const;
  void submit(std::shared_ptr<const Batch> batch);
  BatchResult wait_for(Ticket ticket);

  std::shared_ptr<const CpuModel> model_;
  CpuDevice device_;
  ProgramCache programs_;
  std::uint32_t num_sequences_;
  std::uint32_t pages_each_;
  std::uint32_t position_ = 0;  // tokens in every sequence
  Ticket submitted_ = 0;
  std::atomic<std::uint32_t> rings_{0};
};

}  // namespace troupe::bench
