// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/prefill_pace.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <random>

using namespace troupe;

namespace {

constexpr auto kAll = std::numeric_limits<std::uint32_t>::max();

// A device on which things take 10 ms, 20 us a prompt token and 5 ns a pair.
struct Device {
  double noise = 0;  // share
  std::mt19937_64 random{7};

  std::chrono::nanoseconds time(double tokens, double pairs) {
    const double factor = 1 + noise * (std::uniform_real_distribution<double>(-1, 1)(random));
    return std::chrono::nanoseconds(static_cast<std::int64_t>(factor * (10e6 + 20e3 * tokens + 5 * pairs)));
  }
  void decode(PrefillPace& pace) { pace.observe({.num_tokens = 4, .num_sequences = 4}, 4, time(0, 0)); }
  void prompt(PrefillPace& pace, std::uint32_t tokens, std::uint32_t context) {
    const std::uint64_t pairs = std::uint64_t{tokens} * context + std::uint64_t{tokens} * tokens / 2;
    pace.observe({.num_tokens = tokens + 4, .num_sequences = 5, .prefill_pairs = pairs}, 4,
                 time(tokens, static_cast<double>(pairs)));
  }
  // What an iteration with so many tokens takes, in decode-only ones.
  double factor_of(std::uint32_t tokens, std::uint32_t context) const {
    const double pairs = static_cast<double>(tokens) * context + 0.5 * tokens * tokens;
    return (10e6 + 20e3 * tokens + 5 * pairs) / 10e6;
  }
};

}  // namespace

TEST_CASE("prefill pace: nothing is held back before something is known") {
  PrefillPace pace;
  CHECK(pace.max_prompt_tokens(2.5, 0) == kAll);
  Device device;
  device.decode(pace);
  CHECK(pace.max_prompt_tokens(2.5, 0) == kAll);
  CHECK(pace.prompt_tokens_within(std::chrono::milliseconds(15), 0) == kAll);
  CHECK(pace.prompt_time(256, 0).count() == 0);
  device.prompt(pace, 256, 0);
  CHECK(pace.max_prompt_tokens(2.5, 0) < kAll);
  // 1.5 iterations of 10 ms.
  CHECK(pace.prompt_tokens_within(std::chrono::milliseconds(15), 0) == pace.max_prompt_tokens(2.5, 0));
}

TEST_CASE("prefill pace: times that come out below zero count as none") {
  PrefillPace pace;
  Device device;
  device.prompt(pace, 256, 0);
  pace.observe({.num_tokens = 4, .num_sequences = 4}, 4, std::chrono::milliseconds(-5));
  CHECK(pace.max_prompt_tokens(2.5, 0) == kAll);
  device.decode(pace);
  pace.observe({.num_tokens = 260, .num_sequences = 5}, 4, std::chrono::milliseconds(-5));
  const auto tokens = pace.max_prompt_tokens(2.5, 0);
  CHECK(tokens > 0);
  CHECK(tokens < kAll);
}

TEST_CASE("prefill pace: an iteration with so many tokens takes the factor") {
  for (const double noise : {0.0, 0.05}) {
    Device device{.noise = noise};
    PrefillPace pace;
    for (int i = 0; i < 50; ++i) {
      device.decode(pace);
      device.prompt(pace, 64 + 32 * (i % 8), 200 * static_cast<std::uint32_t>(i % 10));
    }
    for (const double factor : {1.5, 2.5, 4.0})
      for (const std::uint32_t context : {0u, 500u, 4000u}) {
        CAPTURE(factor);
        CAPTURE(context);
        const std::uint32_t tokens = pace.max_prompt_tokens(factor, context);
        if (tokens == PrefillPace::kFewestTokens) continue;
        const double tolerance = noise == 0 ? 0.02 : 0.2;
        CHECK(device.factor_of(tokens, context) == doctest::Approx(factor).epsilon(tolerance));
        CHECK(static_cast<double>(pace.prompt_time(tokens, context).count()) ==
              doctest::Approx((factor - 1) * 10e6).epsilon(tolerance));
      }
  }
}

TEST_CASE("prefill pace: a prompt's time is one that a clock counts, however slow batches were") {
  PrefillPace pace;
  pace.observe({.num_tokens = 4, .num_sequences = 4}, 4, std::chrono::milliseconds(1));
  for (const std::uint32_t tokens : {64U, 128U})
    pace.observe({.num_tokens = tokens + 4, .num_sequences = 5, .prefill_pairs = 64}, 4,
                 std::chrono::hours(24 * 10 * tokens / 64));
  CHECK(pace.prompt_time(1'000'000, 0) == std::chrono::nanoseconds(1'000'000'000'000'000));
}

TEST_CASE("prefill pace: a longer context makes chunks smaller, never below the fewest tokens") {
  Device device;
  PrefillPace pace;
  for (int i = 0; i < 30; ++i) {
    device.decode(pace);
    device.prompt(pace, 128, 100 * static_cast<std::uint32_t>(i));
  }
  std::uint32_t before = kAll;
  for (std::uint32_t context = 0; context < 200'000; context += 10'000) {
    const std::uint32_t tokens = pace.max_prompt_tokens(2.5, context);
    CHECK(tokens <= before);
    CHECK(tokens >= PrefillPace::kFewestTokens);
    before = tokens;
  }
  CHECK(before == PrefillPace::kFewestTokens);
}

TEST_CASE("prefill pace: a device that has become slower is followed") {
  Device device;
  PrefillPace pace;
  device.decode(pace);
  for (int i = 0; i < 20; ++i) device.prompt(pace, 128, 0);
  const std::uint32_t before = pace.max_prompt_tokens(2.5, 0);
  for (int i = 0; i < 100; ++i)
    pace.observe({.num_tokens = 132, .num_sequences = 5, .prefill_pairs = 128 * 64}, 4,
                 std::chrono::milliseconds(10) + 128 * std::chrono::microseconds(80));
  CHECK(pace.max_prompt_tokens(2.5, 0) < before / 3);
}
