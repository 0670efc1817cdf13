// SPDX-License-Identifier: Apache-2.0
// The pace of running streams beside a prompt: how many of its tokens a batch may
// take so that an iteration stays within a factor of one that only decodes. Learns
// from the iterations that were served:
//
//   time = decode-only time + per_token x prompt tokens + per_pair x (query, key) pairs
#pragma once

#include <chrono>
#include <cstdint>

#include "policy/costs/cost_profile.hpp"

namespace troupe {

// One a worker: times differ between devices.
class PrefillPace {
 public:
  // Fewer would make a prompt take for ever, whatever the factor is.
  static constexpr std::uint32_t kFewestTokens = 32;

  // num_decodes: sequences of the batch that advanced by one drawn token.
  void observe(const IterationShape& shape, std::uint32_t num_decodes, std::chrono::nanoseconds time);

  // Prompt tokens behind `context` known ones, beside sequences that decode.
  // UINT32_MAX while too little is known. factor: > 1.
  std::uint32_t max_prompt_tokens(double factor, std::uint32_t context) const;
  // Prompt tokens behind `context` known ones that take no longer than this; kFewestTokens at
  // least, UINT32_MAX while too little is known.
  std::uint32_t prompt_tokens_within(std::chrono::nanoseconds time, std::uint32_t context) const;

  // The time that prompt tokens behind `context` known ones add to an iteration; 0 while too little is known.
  std::chrono::nanoseconds prompt_time(std::uint32_t num_tokens, std::uint32_t context) const;

  std::chrono::nanoseconds decode_time() const {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(decode_time_));
  }

 private:
  friend class Fingerprint;
  struct Costs {
    double per_token = 0, per_pair = 0;  // nanoseconds
  };
  Costs costs() const;
  std::uint32_t tokens_within(double nanoseconds, std::uint32_t context) const;

  double decode_time_ = 0;  // nanoseconds, followed slowly; 0: not known
  // Sums over iterations with prompts, older ones fading: tokens and pairs times
  // each other and times the time beyond decode_time_.
  double tokens_tokens_ = 0, tokens_pairs_ = 0, pairs_pairs_ = 0;
  double tokens_time_ = 0, pairs_time_ = 0;
};

}  // namespace troupe
