// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/batch_trigger.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using std::chrono::milliseconds;

namespace {

constexpr EncoderBatchLimits kLimits{.max_texts = 4, .max_tokens = 100};
const std::chrono::steady_clock::time_point kArrival{milliseconds(1000)};

TriggerRule lazy(milliseconds timeout, milliseconds objective = milliseconds(0)) {
  return {.trigger = BatchTrigger::kLazy, .timeout = timeout, .objective = objective};
}

milliseconds wait_of(const TriggerRule& rule, const WaitingTexts& waiting) {
  return std::chrono::duration_cast<milliseconds>(start_time(rule, waiting, kLimits) - kArrival);
}

}  // namespace

TEST_CASE("batch trigger: hungry, a text alone starts at once") {
  CHECK(wait_of({}, {.oldest = kArrival, .num_texts = 1, .num_tokens = 1}) == milliseconds(0));
}

TEST_CASE("batch trigger: lazy, a text waits for the time-out, and a full batch for nothing") {
  const TriggerRule rule = lazy(milliseconds(30));
  CHECK(wait_of(rule, {.oldest = kArrival, .num_texts = 3, .num_tokens = 99}) == milliseconds(30));
  CHECK(wait_of(rule, {.oldest = kArrival, .num_texts = 4, .num_tokens = 4}) == milliseconds(0));
  CHECK(wait_of(rule, {.oldest = kArrival, .num_texts = 1, .num_tokens = 100}) == milliseconds(0));
}

TEST_CASE("batch trigger: lazy, waiting and running take no more than half of the objective") {
  const TriggerRule rule = lazy(milliseconds(30), milliseconds(40));
  const auto waits = [&](int run_milliseconds) {
    return wait_of(
        rule,
        {.oldest = kArrival, .num_texts = 1, .num_tokens = 1, .run_time = milliseconds(run_milliseconds)});
  };
  CHECK(waits(5) == milliseconds(15));
  CHECK(waits(0) == milliseconds(20));
  CHECK(waits(25) == milliseconds(-5));  // late already: at once
  CHECK(wait_of(lazy(milliseconds(10), milliseconds(400)), {.oldest = kArrival, .num_texts = 1}) ==
        milliseconds(10));
}
