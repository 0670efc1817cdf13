// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/tenant_meter.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

constexpr double kNanosecondsPerMinute = 60e9;
// A request is let in with one token in the bucket: a whole one, as clients are told.
constexpr double kLeast = 1;

}  // namespace

TenantMeter::TenantMeter(const TenantLimits& limits, TimePoint now)
    : limits_(limits), level_(static_cast<double>(limits.burst())), since_(now) {}

// A bucket that gets larger is not filled by that, one that was not there is full.
void TenantMeter::set_limits(const TenantLimits& limits, TimePoint now) {
  const bool is_new = limits_.tokens_per_minute == 0;
  const double burst = static_cast<double>(limits.burst());
  level_ = is_new ? burst : std::min(level(now), burst);
  since_ = now;
  limits_ = limits;
}

std::optional<TenantMeter::Refusal> TenantMeter::begin(TimePoint now) {
  if (limits_.max_requests > 0 && num_requests_ >= limits_.max_requests)
    return Refusal{.limit = Limit::kRequests};
  if (auto refusal = refuse_by_rate(now)) return refusal;
  num_requests_ += 1;
  return std::nullopt;
}

std::optional<TenantMeter::Refusal> TenantMeter::reserve(std::uint64_t num_prompt, std::uint64_t max_drawn,
                                                         std::uint64_t num_of_request, TimePoint now) {
  const std::uint64_t num_new = num_prompt + max_drawn;
  if (limits_.max_tokens > 0 && num_of_request + num_new > limits_.max_tokens)
    return Refusal{.limit = Limit::kTokensOfOne};
  if (limits_.max_tokens > 0 && num_tokens_ + num_new > limits_.max_tokens)
    return Refusal{.limit = Limit::kTokens};
  if (num_of_request == 0)
    if (auto refusal = refuse_by_rate(now)) return refusal;
  take(num_prompt, now);
  num_tokens_ += num_new;
  return std::nullopt;
}

void TenantMeter::use(std::uint64_t num_tokens, TimePoint now) { take(num_tokens, now); }

void TenantMeter::put_back(std::uint64_t num_prompt) {
  if (limits_.tokens_per_minute == 0) return;
  level_ = std::min(level_ + static_cast<double>(num_prompt), static_cast<double>(limits_.burst()));
}

TenantMeter::Reading TenantMeter::read(TimePoint now) const {
  const double left = level(now);
  return {.requests_left = limits_.max_requests - std::min(num_requests_, limits_.max_requests),
          .tokens_left = static_cast<std::uint64_t>(std::max(left, 0.0)),
          .until_full = time_of(static_cast<double>(limits_.burst()) - left)};
}

double TenantMeter::level(TimePoint now) const {
  const double elapsed = static_cast<double>(std::chrono::nanoseconds(now - since_).count());
  const double filled =
      std::max(elapsed, 0.0) * static_cast<double>(limits_.tokens_per_minute) / kNanosecondsPerMinute;
  return std::min(level_ + filled, static_cast<double>(limits_.burst()));
}

void TenantMeter::take(std::uint64_t num_tokens, TimePoint now) {
  if (limits_.tokens_per_minute == 0) return;
  level_ = level(now) - static_cast<double>(num_tokens);
  since_ = std::max(since_, now);
}

std::optional<TenantMeter::Refusal> TenantMeter::refuse_by_rate(TimePoint now) const {
  if (limits_.tokens_per_minute == 0) return std::nullopt;
  const double left = level(now);
  if (left >= kLeast) return std::nullopt;
  return Refusal{.limit = Limit::kTokensPerMinute, .wait = time_of(kLeast - left)};
}

// In which the bucket fills by so many, rounded up.
std::chrono::nanoseconds TenantMeter::time_of(double num_tokens) const {
  if (limits_.tokens_per_minute == 0 || num_tokens <= 0) return std::chrono::nanoseconds(0);
  const double time = num_tokens * kNanosecondsPerMinute / static_cast<double>(limits_.tokens_per_minute);
  constexpr double kLongest = 9e18;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(std::ceil(time) + 1, kLongest)));
}

}  // namespace troupe
