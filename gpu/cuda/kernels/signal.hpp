// SPDX-License-Identifier: Apache-2.0
// The last kernel of a batch tells the host (BatchMaker's signalling kernel,
// §4.2): it writes the sampled tokens, log-probabilities where they were asked
// for, and then the batch's number into pinned memory, where a thread polls the
// number. A reader that sees a number sees the tokens of that batch and of all before it.
#pragma once

#include <cstdint>

#include "gpu/cuda/kernels/sampling/row_logprobs.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"

namespace troupe::cuda {

struct SignalArguments {
  const std::int32_t* token_ids = nullptr;  // [num_tokens], device
  std::uint32_t num_tokens = 0;
  std::int32_t* host_token_ids = nullptr;  // [num_tokens], pinned and mapped
  const RowLogprobs* logprobs = nullptr;   // [num_logprobs], device
  std::uint32_t num_logprobs = 0;
  RowLogprobs* host_logprobs = nullptr;  // [num_logprobs], pinned and mapped
  // When the batch's first kernel began, on the device, or none; *host_nanoseconds,
  // pinned and mapped, then gets the time since.
  const std::uint64_t* began = nullptr;
  std::uint64_t* host_nanoseconds = nullptr;
  std::uint64_t* word = nullptr;  // pinned and mapped; only grows
  std::uint64_t batch = 0;
};

// Throws CudaError. Any thread.
void launch_signal(const SignalArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
