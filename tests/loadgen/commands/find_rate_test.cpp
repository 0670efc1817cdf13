// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/find_rate.hpp"

#include <doctest/doctest.h>

namespace troupe::loadgen {
namespace {

using namespace std::chrono_literals;

// An answer of some tokens, 10 ms each; 0: refused.
RequestRecord record_of(std::uint32_t num_tokens) {
  RequestRecord record;
  record.intended = record.sent = record.finished = 1ms;
  record.outcome = num_tokens > 0 ? Outcome::kCompleted : Outcome::kRefused;
  if (num_tokens == 0) return record;
  record.first_token = record.last_token = 11ms;
  record.gaps_us.assign(num_tokens - 1, 10'000);
  record.last_token += 10ms * (num_tokens - 1);
  record.finished = record.last_token;
  record.output_tokens = num_tokens;
  return record;
}

RunResult run_of(std::initializer_list<std::uint32_t> answers) {
  RunResult result;
  result.measured_until = 1s;
  for (const auto num_tokens : answers) result.records.push_back(record_of(num_tokens));
  return result;
}

std::variant<RateTrial, Unjudged> judged(const char* objectives, const RunResult& result) {
  return judge_rate(4, parse_objectives(objectives), result, summarize(result));
}

bool is_met(const char* objectives, const RunResult& result) {
  const auto outcome = judged(objectives, result);
  REQUIRE(std::holds_alternative<RateTrial>(outcome));
  return std::get<RateTrial>(outcome).is_met;
}

// REQUIREs that it is not judged.
Unjudged reason_of(const char* objectives, const RunResult& result) {
  const auto outcome = judged(objectives, result);
  REQUIRE(std::holds_alternative<Unjudged>(outcome));
  return std::get<Unjudged>(outcome);
}

constexpr const char* kEachKind[] = {"ttft_p99=9s", "tpot_p99=9s", "itl_p99=9s",  "e2e_p99=9s",
                                     "e2e_mean=9s", "itl_mean=9s", "ttft_mean=9s"};

TEST_CASE("find rate: a server that answers nothing, or not all, meets no objective") {
  auto completed_only = run_of({3, 0});
  completed_only.settings.emplace_back(kPercentilesSetting, kOfCompleted);
  for (const char* objective : kEachKind) {
    CAPTURE(objective);
    CHECK(is_met(objective, run_of({3, 3})));
    CHECK_FALSE(is_met(objective, run_of({0, 0})));
    CHECK_FALSE(is_met(objective, run_of({3, 0})));
    CHECK_FALSE(is_met(objective, completed_only));
  }
}

TEST_CASE("find rate: an objective of which nothing was measured is not judged") {
  CHECK(reason_of("e2e_p99=9s", run_of({})) == Unjudged::kNotMeasured);
  CHECK(reason_of("tpot_p99=9s", run_of({1, 1})) == Unjudged::kNotMeasured);
  CHECK(reason_of("itl_mean=9s", run_of({1, 1})) == Unjudged::kNotMeasured);
}

TEST_CASE("find rate: a late generator's trial counts only where it can but be worse") {
  auto late = run_of({3, 3});
  late.is_beyond_honest_rate = true;
  CHECK(is_met("ttft_p99=9s,e2e_mean=9s", late));
  for (const char* objective : {"ttft_p99=1us", "itl_p99=9s", "ttft_p99=9s,tpot_p99=9s"})
    CHECK(reason_of(objective, late) == Unjudged::kGeneratorLate);
}

}  // namespace
}  // namespace troupe::loadgen
