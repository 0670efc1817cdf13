// SPDX-License-Identifier: Apache-2.0
// How the host learns that a batch on a stream is done. The last kernel writes
// the batch's tokens and then its number into pinned memory (BatchMaker's
// signalling kernel); a thread waits for the number: by polling it, by a host
// function or by an event. All three are there to be compared; polling is the
// fastest and puts nothing between two kernels.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "gpu/backend.hpp"
#include "gpu/cuda/runtime/stream.hpp"

namespace troupe::cuda {

// queue() is the submitting thread's, wait() the waiting thread's.
class Completion {
 public:
  virtual ~Completion() = default;
  // Behind the signalling kernel of a batch; numbers count up from 1.
  virtual void queue(std::uint64_t number, const Stream& stream) = 0;
  // Until the batch is done. False: `stop` was raised first. Throws CudaError
  // when the device has failed.
  virtual bool wait(std::uint64_t number, const std::atomic<bool>& stop) = 0;
};

// `word`: what the signalling kernel writes. `stream` is asked for errors.
std::unique_ptr<Completion> make_completion(CompletionSignal signal, const std::uint64_t* word,
                                            const Stream& stream);

}  // namespace troupe::cuda
