// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/plan_summary.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <vector>

#include "tests/loadgen/workload/planned_input.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace {

PlannedConversation conversation(std::chrono::seconds start, std::vector<PrefixBlock> prefix,
                                 std::uint32_t output_tokens) {
  PlannedConversation planned;
  planned.start = start;
  planned.prefix = std::move(prefix);
  planned.turns.resize(2);
  for (auto& turn : planned.turns) {
    turn.prompt_tokens = 10;
    turn.output_tokens = output_tokens;
  }
  return planned;
}

}  // namespace

TEST_CASE("plan summary: quantiles are lengths that occur") {
  std::vector<std::uint32_t> lengths;
  for (std::uint32_t length = 1; length <= 101; ++length) lengths.push_back(102 - length);
  const auto statistics = length_statistics(lengths);
  CHECK(statistics.mean == 51);
  CHECK(statistics.p50 == 51);
  CHECK(statistics.p99 == 100);
  CHECK(statistics.max == 101);
  lengths.clear();
  CHECK(length_statistics(lengths).max == 0);
}

TEST_CASE("plan summary: conversations, turns, times and what prefixes share are counted") {
  PlanSummary summary(std::vector<RequestClass>(1));
  summary.add(conversation(std::chrono::seconds(0), {{1, 300}, {2, 100}}, 0));
  summary.add(conversation(std::chrono::seconds(4), {{1, 300}, {3, 100}}, 0));
  CHECK(summary.num_conversations() == 2);
  CHECK(summary.num_turns() == 4);
  CHECK(summary.repeated_prefix_share() == doctest::Approx(300.0 / 800));
  std::ostringstream out;
  summary.print(out);
  CHECK(contains(out.str(), "2 conversations, 4 turns; the last begins at 4.0 s: 0.5 a second"));
  CHECK(contains(out.str(), "210.0"));  // 410, 10, 410, 10
  CHECK(contains(out.str(), "until the model ends"));
  CHECK(contains(out.str(), "37.5 % of 800 prefix tokens have come before"));
}
