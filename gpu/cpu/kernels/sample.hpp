// SPDX-License-Identifier: Apache-2.0
// Sample (gpu/operators/sample.hpp) on CPU cores: draws one token id from a row of logits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/cpu/kernels/isa.hpp"
#include "gpu/program/batch.hpp"

namespace troupe {

// In place of a token id: a NaN or +Inf among the logits, or nothing left that
// may be drawn. -Inf is a token that cannot be drawn.
inline constexpr std::int32_t kInvalidLogits = -1;

struct SampleRow {
  SamplingParameters parameters{};
  std::uint64_t position = 0;                  // of the token to be drawn in its sequence
  std::span<const std::int32_t> suppressed{};  // ids outside the vocabulary are ignored
  std::span<const TokenBias> biased{};         // each id once; ids outside the vocabulary are ignored
  std::span<const std::uint32_t> allowed{};    // a TokenMask of what may be drawn; empty: all
  // Tokens to penalize, each id once, and tokens generated after that, in
  // any order and as often as they were. Ids outside the vocabulary are ignored.
  std::span<const PenalizedToken> penalized{};
  std::array<std::int32_t, kRecentTokens> pending{};
  std::uint32_t num_pending = 0;
  std::int32_t scored_token = -1;  // in the vocabulary: taken for the one drawn
};

struct SampleArguments {
  const float* logits = nullptr;  // [rows.size(), vocabulary]
  std::size_t logits_stride = 0;
  std::size_t vocabulary = 0;
  std::span<const SampleRow> rows;
  std::int32_t* token_ids = nullptr;  // [rows.size()]: an id or kInvalidLogits
  TokenLogprobs* logprobs = nullptr;  // [rows.size()]: of rows that ask and get a token; or null
  Isa isa = best_isa();
};

// A task is a row.
std::size_t sample_num_tasks(const SampleArguments& arguments);
void sample_run_task(const SampleArguments& arguments, std::size_t task);

// A logit after its token's penalties; finite ones stay finite, and -Inf itself.
float penalized_logit(const SamplingParameters& parameters, float logit, std::uint32_t num_generated);

// A logit with its token's bias; finite ones stay finite, and -Inf itself.
float biased_logit(float logit, float bias);

// The generator, after Salmon et al. (SC 2011).
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);
// Uniform in [0, 1), 53 bits.
double uniform_draw(std::uint64_t seed, std::uint64_t position);

}  // namespace troupe
