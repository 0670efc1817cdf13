// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/tenant_meter.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <random>

namespace troupe {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Limit = TenantMeter::Limit;
using Refusal = TenantMeter::Refusal;

const TenantMeter::TimePoint kStart{std::chrono::hours(1)};

TEST_CASE("tenant meter: without limits everything is let in") {
  TenantMeter meter({}, kStart);
  for (int i = 0; i < 1000; ++i) {
    CHECK_FALSE(meter.begin(kStart));
    CHECK_FALSE(meter.reserve(1U << 30, 1U << 30, 0, kStart));
    meter.use(1U << 30, kStart);
  }
  CHECK(meter.num_requests() == 1000);
}

TEST_CASE("tenant meter: requests in flight are bounded, one that ends makes room") {
  TenantMeter meter({.max_requests = 2}, kStart);
  CHECK_FALSE(meter.begin(kStart));
  CHECK_FALSE(meter.begin(kStart));
  CHECK(meter.begin(kStart) == Refusal{.limit = Limit::kRequests});
  CHECK(meter.read(kStart).requests_left == 0);
  meter.end();
  CHECK(meter.read(kStart).requests_left == 1);
  CHECK_FALSE(meter.begin(kStart));
}

TEST_CASE("tenant meter: tokens in flight are prompts and the most that answers may have") {
  TenantMeter meter({.max_tokens = 100}, kStart);
  CHECK_FALSE(meter.reserve(30, 40, 0, kStart));
  CHECK(meter.reserve(20, 11, 0, kStart) == Refusal{.limit = Limit::kTokens});
  CHECK_FALSE(meter.reserve(20, 10, 0, kStart));
  meter.give_back(70);
  CHECK_FALSE(meter.reserve(60, 10, 0, kStart));
  CHECK(meter.num_tokens() == 100);
  // Waiting would be in vain.
  CHECK(meter.reserve(60, 41, 0, kStart) == Refusal{.limit = Limit::kTokensOfOne});
}

TEST_CASE("tenant meter: a request of several prompts is let in with the first of them") {
  TenantMeter meter({.max_tokens = 200, .tokens_per_minute = 600, .burst_tokens = 100}, kStart);
  REQUIRE_FALSE(meter.begin(kStart));
  REQUIRE_FALSE(meter.reserve(100, 10, 0, kStart));  // the bucket is empty
  CHECK(meter.reserve(40, 10, 0, kStart));           // of another request
  CHECK_FALSE(meter.reserve(40, 10, 110, kStart));
  // With the earlier ones it is more than may ever be in flight.
  CHECK(meter.reserve(31, 10, 160, kStart) == Refusal{.limit = Limit::kTokensOfOne});
}

TEST_CASE("tenant meter: a prompt that is put back was never taken") {
  TenantMeter meter({.tokens_per_minute = 600, .burst_tokens = 100}, kStart);
  REQUIRE_FALSE(meter.reserve(160, 0, 0, kStart));  // 60 of debt
  CHECK(meter.begin(kStart + seconds(1)));
  meter.put_back(160);
  CHECK_FALSE(meter.begin(kStart + seconds(1)));
  CHECK(meter.read(kStart + seconds(1)).tokens_left == 100);
}

TEST_CASE("tenant meter: who has used up the bucket waits until there is a token in it") {
  TenantMeter meter({.tokens_per_minute = 600, .burst_tokens = 100}, kStart);  // 10 a second
  REQUIRE_FALSE(meter.begin(kStart));
  REQUIRE_FALSE(meter.reserve(80, 50, 0, kStart));
  CHECK(meter.read(kStart).tokens_left == 20);
  meter.use(49, kStart);  // 29 of debt
  CHECK(meter.read(kStart).tokens_left == 0);
  const auto refusal = meter.begin(kStart);
  REQUIRE(refusal);
  CHECK(refusal->limit == Limit::kTokensPerMinute);
  CHECK(refusal->wait >= seconds(3));
  CHECK(refusal->wait < seconds(3) + milliseconds(1));
  CHECK(meter.begin(kStart + refusal->wait - milliseconds(1)));
  CHECK_FALSE(meter.begin(kStart + refusal->wait));
  CHECK(meter.read(kStart + std::chrono::hours(1)).tokens_left == 100);  // not more than the burst
}

TEST_CASE("tenant meter: a burst that is not given is a minute's tokens") {
  const TenantMeter meter({.tokens_per_minute = 600}, kStart);
  CHECK(meter.read(kStart).tokens_left == 600);
  CHECK(meter.read(kStart).until_full == nanoseconds(0));
}

TEST_CASE("tenant meter: other limits leave what is in flight and a debt as they are") {
  TenantMeter meter({.max_requests = 1, .tokens_per_minute = 600, .burst_tokens = 10}, kStart);
  REQUIRE_FALSE(meter.begin(kStart));
  REQUIRE_FALSE(meter.reserve(40, 0, 0, kStart));  // 30 of debt
  meter.set_limits({.max_requests = 1, .tokens_per_minute = 6000, .burst_tokens = 1000}, kStart);
  CHECK(meter.num_requests() == 1);
  CHECK(meter.begin(kStart) == Refusal{.limit = Limit::kRequests});
  meter.end();
  CHECK(meter.begin(kStart + milliseconds(300)));
  CHECK_FALSE(meter.begin(kStart + milliseconds(320)));
}

TEST_CASE("tenant meter: a rate that is new begins with a full bucket") {
  TenantMeter meter({}, kStart);
  meter.use(1000, kStart);
  meter.set_limits({.tokens_per_minute = 60}, kStart + seconds(5));
  CHECK(meter.read(kStart + seconds(5)).tokens_left == 60);
}

// Whatever is let in, all that was used before it had been paid for.
TEST_CASE("tenant meter: in random traffic bounds hold, the rate is kept and waits are true") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const TenantLimits limits{.max_requests = static_cast<std::uint32_t>(random() % 6),
                              .max_tokens = random() % 3 == 0 ? 0 : 50 + random() % 400,
                              .tokens_per_minute = 60 + random() % 60000,
                              .burst_tokens = random() % 500};
    TenantMeter meter(limits, kStart);
    struct Open {
      std::uint64_t reserved = 0, to_draw = 0;
    };
    std::deque<Open> open;
    auto now = kStart;
    std::uint64_t num_used = 0, num_tokens = 0;
    for (int step = 0; step < 400; ++step) {
      now += milliseconds(random() % 50);
      if (!open.empty() && random() % 3 == 0) {
        meter.use(open.front().to_draw, now);
        num_used += open.front().to_draw;
        meter.give_back(open.front().reserved);
        num_tokens -= open.front().reserved;
        meter.end();
        open.pop_front();
      } else if (const auto refusal = meter.begin(now)) {
        if (refusal->limit == Limit::kRequests) {
          REQUIRE(open.size() == limits.max_requests);
        } else {
          REQUIRE(refusal->limit == Limit::kTokensPerMinute);
          TenantMeter later = meter;
          REQUIRE_FALSE(later.begin(now + refusal->wait));
          TenantMeter sooner = meter;
          REQUIRE(sooner.begin(now + refusal->wait * 9 / 10));
        }
      } else {
        const std::uint64_t num_prompt = random() % 200, max_drawn = random() % 100;
        if (const auto late = meter.reserve(num_prompt, max_drawn, 0, now)) {
          if (late->limit == Limit::kTokensOfOne) REQUIRE(num_prompt + max_drawn > limits.max_tokens);
          if (late->limit == Limit::kTokens) REQUIRE(num_tokens + num_prompt + max_drawn > limits.max_tokens);
          meter.end();
          continue;
        }
        const double minutes = std::chrono::duration<double>(now - kStart).count() / 60;
        const double paid =
            static_cast<double>(limits.burst()) + minutes * static_cast<double>(limits.tokens_per_minute);
        REQUIRE(static_cast<double>(num_used) < paid + 1e-6);
        open.push_back({.reserved = num_prompt + max_drawn, .to_draw = random() % (max_drawn + 1)});
        num_used += num_prompt;
        num_tokens += num_prompt + max_drawn;
      }
      REQUIRE(meter.num_requests() == open.size());
      REQUIRE(meter.num_tokens() == num_tokens);
      if (limits.max_requests > 0) REQUIRE(open.size() <= limits.max_requests);
      if (limits.max_tokens > 0) REQUIRE(num_tokens <= limits.max_tokens);
      REQUIRE(static_cast<double>(meter.read(now).tokens_left) <= static_cast<double>(limits.burst()));
    }
  }
}

}  // namespace
}  // namespace troupe
