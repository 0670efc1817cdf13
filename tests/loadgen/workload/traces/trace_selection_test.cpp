// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/trace_selection.hpp"

#include <doctest/doctest.h>

#include <string>

#include "loadgen/workload/traces/formats/csv_trace.hpp"
#include "loadgen/workload/traces/formats/mooncake_trace.hpp"
#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/loadgen/workload/traces/trace_text.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;
using std::chrono::seconds;

namespace {

// One request a second, of 1000 tokens in and 100 out.
std::string ten_seconds() {
  std::string text;
  for (int i = 0; i < 10; ++i)
    text += "{\"timestamp\": " + std::to_string(1000 * i) +
            ", \"input_length\": 1000, \"output_length\": 100, \"hash_ids\": [7, " + std::to_string(100 + i) +
            "]}\n";
  return text;
}

std::vector<PlannedConversation> selected(const TraceSettings& settings) {
  return all_of(*select_from_trace(read_mooncake_trace(trace_input(ten_seconds())), settings));
}

}  // namespace

TEST_CASE("trace selection: a window has its own clock, its begin counts and its end does not") {
  TraceSettings settings;
  settings.from_s = 3;
  settings.until_s = 6;
  const auto plan = selected(settings);
  REQUIRE(plan.size() == 3);
  CHECK(plan[0].start == seconds(0));
  CHECK(plan[0].prefix.at(1).id == 103);
  CHECK(plan[2].start == seconds(2));
}

TEST_CASE("trace selection: a limit on conversations holds") {
  TraceSettings settings;
  settings.max_conversations = 4;
  CHECK(selected(settings).size() == 4);
}

TEST_CASE("trace selection: a window with nothing in it is refused and says where the trace ends") {
  TraceSettings settings;
  settings.file = "t.jsonl";
  settings.from_s = 100;
  CHECK(refusal_of([&] { selected(settings); }) ==
        "t.jsonl: expected conversations between 100 s and inf s, got none; the last one read is at 9 s");
}

TEST_CASE("trace selection: a trace with no requests at all is refused") {
  TraceSettings settings;
  settings.file = "t.csv";
  const auto select = [&] {
    all_of(*select_from_trace(read_azure_trace(trace_input("TIMESTAMP,ContextTokens,GeneratedTokens\n")),
                              settings));
  };
  CHECK(refusal_of(select) == "t.csv: expected at least one conversation, got none");
}

TEST_CASE("trace selection: lengths are multiplied, equal blocks alike") {
  TraceSettings settings;
  settings.length_factor = 0.25;
  for (const auto& c : selected(settings)) {
    CHECK(c.prefix.at(0).num_tokens == 128);
    CHECK(c.prefix.at(1).num_tokens == 122);
    CHECK(c.turns.at(0).output_tokens == 25);
  }
}

TEST_CASE("trace selection: what is too long for the context is shrunk, the prefix at its end") {
  TraceSettings settings;
  settings.max_context_tokens = 550;
  for (const auto& c : selected(settings)) {
    REQUIRE(c.prefix.size() == 1);
    CHECK(c.prefix[0].num_tokens == 500);
    CHECK(c.turns.at(0).output_tokens == 50);
  }
}
