// SPDX-License-Identifier: Apache-2.0
// Draws one token id from each row of logits without leaving the device, by the
// rules of the host's (gpu/host/kernels/sample.hpp): temperature 0 is the arg
// max, ties to the lowest id; otherwise temperature, then top_k, top_p and
// min_p, then a draw with Philox4x32-10 of (seed, position), the host's numbers.
//
// Sums are taken in whole numbers (2^-44 of the highest weight is 1), so they
// don't depend on the order of threads, and a draw is the same every time. It
// differs from the host's only where a cut or a draw falls between two ids
// closer than the rounding of exp().
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/batch.hpp"
#include "gpu/cuda/stream_handle.hpp"

namespace troupe::cuda {

struct SampleRow {
  SamplingParameters parameters{};
  std::uint64_t position = 0;          // of the token to be drawn in its sequence
  std::uint32_t first_suppressed = 0;  // among SampleArguments::suppressed
  std::uint32_t num_suppressed = 0;
  SlotId slot = 0;  // whose last token this becomes
};

// Device pointers; strides in elements.
struct SampleArguments {
  float* logits = nullptr;  // [num_rows, vocabulary]; overwritten
  std::size_t logits_stride = 0;
  std::uint32_t vocabulary = 0;
  const SampleRow* rows = nullptr;           // [num_rows]
  const std::int32_t* suppressed = nullptr;  // ids outside the vocabulary are ignored
  std::int32_t* token_ids = nullptr;         // [num_rows]: an id, or -1: NaN or +Inf among the
                                             // logits, or nothing that may be drawn
  std::int32_t* tokens_of_slots = nullptr;   // by slot, or none
  std::uint32_t num_rows = 0;
};

// Throws CudaError. Any thread. A block a row.
void launch_sample(const SampleArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
