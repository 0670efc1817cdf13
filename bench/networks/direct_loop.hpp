// SPDX-License-Identifier: Apache-2.0
// The network without engine and actors: batches built by hand, each sequence on pages of
// its own, and the time until they are done. The engine's overhead is measured against this.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "gpu/cpu/cpu_device.hpp"
#include "gpu/direct_device.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe::bench {

struct TooFewPages : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class DirectLoop {
 public:
  // Pages for `length` tokens of each sequence, from page 0 on. Throws TooFewPages.
  DirectLoop(Device& device, ProgramCache& programs, DirectDevice::Waiting waiting,
             std::uint32_t num_sequences, std::uint32_t length);

  // Pages behind those of the sequences.
  std::uint32_t first_spare_page() const { return num_sequences_ * pages_each_; }

  // Seconds from submitting `count` tokens of one sequence, behind `context` known
  // ones, until its next token is there. One batch, after these copies.
  double prefill(std::uint32_t sequence, std::uint32_t context, std::uint32_t count,
                 std::vector<PageCopy> copies = {});
  // All sequences, whole prompts, one after the other, in batches as large as may be. Seconds.
  double prefill_all(std::uint32_t num_tokens);

  struct Decode {
    double seconds = 0.0;          // of wall time, for all steps
    double network_seconds = 0.0;  // the device's own
  };
  // Every sequence advances by one token, `steps` times, with two batches in flight.
  // `copies_of` may be empty.
  Decode decode(std::uint32_t steps,
                const std::function<std::vector<PageCopy>(std::uint32_t step)>& copies_of = {});
  std::uint32_t position() const { return position_; }  // tokens in every sequence

  // A batch of copies only, and waits for it.
  void copy(std::vector<PageCopy> copies);

 private:
  // Tokens of one sequence in a batch of their own.
  Batch chunk_of(std::uint32_t sequence, std::uint32_t context, std::uint32_t count, bool sample) const;
  BatchResult wait_for(Ticket ticket);

  DirectDevice device_;
  std::uint32_t num_sequences_;
  std::uint32_t pages_each_;
  std::uint32_t position_ = 0;
};

// A model on CPU cores, which polling would take one of.
class CpuLoop {
 public:
  CpuLoop(std::shared_ptr<const CpuModel> model, std::uint32_t num_sequences, std::uint32_t length);

  DirectLoop* operator->() { return &loop_; }

 private:
  std::shared_ptr<const CpuModel> model_;
  CpuDevice device_;
  ProgramCache programs_;
  DirectLoop loop_;
};

}  // namespace troupe::bench
