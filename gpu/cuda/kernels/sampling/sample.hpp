// SPDX-License-Identifier: Apache-2.0
// Draws one token id from each row of logits without leaving the device, by the
// rules of the host's (gpu/cpu/kernels/sample.hpp): biases and penalties, to the bit; then
// temperature 0 is the arg max, ties to the lowest id; otherwise temperature,
// then top_k, top_p and min_p, then a draw with Philox4x32-10 of (seed,
// position), the host's numbers.
//
// The tokens that a sequence drew in batches in flight when this one was formed
// are known here only: a ring by slot keeps the last few tokens, each at its
// position modulo kRecentTokens.
//
// Sums are taken in whole numbers (2^-44 of the highest weight is 1), so they
// don't depend on the order of threads, and a draw is the same every time. It
// differs from the host's only where a cut or a draw falls between two ids
// closer than the rounding of exp().
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/kernels/sampling/row_logprobs.hpp"
#include "gpu/cuda/runtime/stream_handle.hpp"
#include "gpu/program/batch.hpp"

namespace troupe::cuda {

struct SampleRow {
  SamplingParameters parameters{};
  std::uint64_t position = 0;          // of the token to be drawn in its sequence
  std::uint32_t first_suppressed = 0;  // among SampleArguments::suppressed
  std::uint32_t num_suppressed = 0;
  SlotId slot = 0;  // the drawn token becomes its last one
  // With penalties: among SampleArguments::penalized, each id once; and how many
  // of the tokens in front of this one are taken from the slot's recent ones.
  std::uint32_t first_penalized = 0;
  std::uint32_t num_penalized = 0;
  std::uint32_t num_pending = 0;   // <= kRecentTokens
  std::uint32_t first_biased = 0;  // among SampleArguments::biased, each id once
  std::uint32_t num_biased = 0;
  std::int32_t first_mask_word = -1;  // in SampleArguments::masks; -1: all may be drawn
  std::uint32_t logprobs_row = 0;     // in SampleArguments::logprobs, if it asks for them
  // Taken for the one drawn; the slot keeps what it has.
  std::int32_t scored_token = -1;  // -1: draw
};

// Device pointers; strides in elements.
struct SampleArguments {
  float* logits = nullptr;  // [num_rows, vocabulary]; overwritten
  std::size_t logits_stride = 0;
  std::uint32_t vocabulary = 0;
  const SampleRow* rows = nullptr;           // [num_rows]
  const std::int32_t* suppressed = nullptr;  // ids outside the vocabulary are ignored
  const std::uint32_t* masks = nullptr;      // [mask_words(vocabulary)] or more each: what may be drawn
  std::int32_t* token_ids = nullptr;         // [num_rows]: an id, or -1: NaN or +Inf among the
                                             // logits, or nothing that may be drawn
  std::int32_t* tokens_of_slots = nullptr;   // by slot, or none
  // Needed by rows with penalties, and by all rows of slots that may have such.
  const PenalizedToken* penalized = nullptr;
  float* penalized_logits = nullptr;      // as long; scratch: what the logits were before
  const TokenBias* biased = nullptr;      // ids outside the vocabulary are ignored
  float* biased_logits = nullptr;         // as long; scratch: what the logits were before
  std::int32_t* recent_tokens = nullptr;  // [num_slots, kRecentTokens], or none
  RowLogprobs* logprobs = nullptr;        // of rows that ask and get a token
  std::uint32_t num_rows = 0;
  // May start while the kernel before in the stream still runs, as LaunchShape says.
  bool overlaps_previous = false;
};

// Throws CudaError. Any thread. A block a row.
void launch_sample(const SampleArguments& arguments, StreamHandle stream);

}  // namespace troupe::cuda
