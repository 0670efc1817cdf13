// SPDX-License-Identifier: Apache-2.0
// One tenant's use, held against its limits. Requests and tokens in flight are bounds
// that are never exceeded. Tokens a minute are a bucket: it fills at the rate up to the
// burst, prompts and answers are taken out of it, and a request is let in while something
// is in it. The last one let in may leave a debt, which time pays before the next, so that
// over a long time the rate holds exactly, and no request is too large for the rate.
//
//   begin ──► reserve (once a prompt) ──► use (each token) ──► end
//                     └──► put_back (it was never run)
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "policy/admitting/tenant_limits.hpp"

namespace troupe {

class TenantMeter {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Limit : std::uint8_t {
    kRequests,
    kTokens,
    kTokensPerMinute,
    kTokensOfOne,  // the request alone, all its prompts, has more than may be in flight: never let in
  };
  struct Refusal {
    Limit limit = Limit::kRequests;
    // After it the same request is let in, if the tenant uses nothing meanwhile; 0: not known,
    // when requests under way have ended.
    std::chrono::nanoseconds wait{0};
    bool operator==(const Refusal&) const = default;
  };
  // As clients are told.
  struct Reading {
    std::uint32_t requests_left = 0;         // with max_requests
    std::uint64_t tokens_left = 0;           // in the bucket
    std::chrono::nanoseconds until_full{0};  // of the bucket
    bool operator==(const Reading&) const = default;
  };

  // The bucket is full.
  TenantMeter(const TenantLimits& limits, TimePoint now);

  // Tokens in flight and a debt stay.
  void set_limits(const TenantLimits& limits, TimePoint now);
  const TenantLimits& limits() const { return limits_; }

  // One more request; nothing: it is let in.
  [[nodiscard]] std::optional<Refusal> begin(TimePoint now);
  // A prompt of it, and the most tokens that answers to it may have. Taken out of the bucket is
  // the prompt. Nothing: it is let in, and `num_prompt + max_drawn` are in flight until give_back().
  // num_of_request: what its earlier prompts have in flight; behind one, the rate is not asked again,
  // which they may have used up.
  [[nodiscard]] std::optional<Refusal> reserve(std::uint64_t num_prompt, std::uint64_t max_drawn,
                                               std::uint64_t num_of_request, TimePoint now);
  // A prompt that was taken out of the bucket and not run: it is there again.
  void put_back(std::uint64_t num_prompt);
  // Tokens of what was let in already: of an answer, of an input that is encoded.
  void use(std::uint64_t num_tokens, TimePoint now);
  void give_back(std::uint64_t num_tokens) { num_tokens_ -= num_tokens; }
  void end() { num_requests_ -= 1; }

  Reading read(TimePoint now) const;
  std::uint32_t num_requests() const { return num_requests_; }
  std::uint64_t num_tokens() const { return num_tokens_; }  // in flight

 private:
  double level(TimePoint now) const;  // of the bucket; negative: a debt
  void take(std::uint64_t num_tokens, TimePoint now);
  std::optional<Refusal> refuse_by_rate(TimePoint now) const;
  std::chrono::nanoseconds time_of(double num_tokens) const;

  TenantLimits limits_;
  double level_ = 0;  // at `since_`
  TimePoint since_;
  std::uint32_t num_requests_ = 0;
  std::uint64_t num_tokens_ = 0;
};

}  // namespace troupe
