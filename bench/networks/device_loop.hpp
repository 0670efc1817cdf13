// SPDX-License-Identifier: Apache-2.0
// A device without engine and actors: batches built by hand, each sequence on
// pages of its own, and the time until they are done. Polls, so nothing is lost to
// a thread that wakes up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe::bench {

class DeviceLoop {
 public:
  // Pages for `length` tokens of each sequence, from page 0 on. Throws
  // std::runtime_error if there are too few.
  DeviceLoop(Device& device, ProgramCache& programs, std::uint32_t num_sequences, std::uint32_t length);

  // Pages behind those of the sequences.
  std::uint32_t first_spare_page() const { return num_sequences_ * pages_each_; }
  std::uint32_t pages_each() const { return pages_each_; }

  // Seconds from submitting `count` tokens of one sequence, behind `context` known
  // ones, until its next token is there. One batch, after these moves.
  double prefill(std::uint32_t sequence, std::uint32_t context, std::uint32_t count,
                 std::vector<PageCopy> moves = {});
  // All sequences, one after the other, in batches as large as may be.
  void prefill_all(std::uint32_t num_tokens);

  struct Decode {
    double seconds = 0.0;          // of wall time, for all steps
    double network_seconds = 0.0;  // the device's own
  };
  // Every sequence advances by one token, `steps` times, with so many batches in
  // flight. `moves_of` may be empty.
  Decode decode(std::uint32_t steps, std::uint32_t max_in_flight,
                const std::function<std::vector<PageCopy>(std::uint32_t step)>& moves_of = {});
  std::uint32_t position() const { return position_; }  // tokens in every sequence

  // A batch of moves only, and waits for it.
  void move(std::vector<PageCopy> moves);

 private:
  std::shared_ptr<Batch> batch_of(std::uint32_t first, std::uint32_t count) const;
  Ticket submit(std::shared_ptr<const Batch> batch);
  BatchResult wait_for(Ticket ticket);

  Device& device_;
  ProgramCache& programs_;
  std::uint32_t num_sequences_;
  std::uint32_t pages_each_;
  std::uint32_t position_ = 0;
};

}  // namespace troupe::bench
