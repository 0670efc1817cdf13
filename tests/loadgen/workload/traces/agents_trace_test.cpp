// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/agents_trace.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/loadgen/workload/traces/trace_text.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace {

const std::string kSystem = R"({"role":"system","content":"You have a shell."})";
const std::string kTask = R"({"role":"user","content":"Find the error."})";
const std::string kCall = R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1"}]})";
const std::string kResult = R"({"role":"tool","tool_call_id":"c1","content":"line 7: missing brace"})";
const std::string kNext = R"({"role":"user","content":[{"type":"text","text":"Go on."},{"type":"image"}]})";

std::string line_of(const std::string& id, const std::string& messages, int prompt, int output,
                    const char* delay) {
  return R"({"conversation_id":")" + id + R"(","messages":[)" + messages + R"(],"recorded_prompt_tokens":)" +
         std::to_string(prompt) + R"(,"recorded_completion_tokens":)" + std::to_string(output) +
         R"(,"simulated_tool_delay_ms_after":)" + delay + "}\n";
}

const std::string kSample =
    line_of("a", kSystem + "," + kTask, 1500, 60, "250.5") +
    line_of("a", kSystem + "," + kTask + "," + kCall + "," + kResult + "," + kNext, 2000, 3000, "0") +
    line_of("a",
            kSystem + "," + kTask + "," + kCall + "," + kResult + "," + kNext + "," + kCall + "," + kResult,
            4000, 40, "1") +
    line_of("b", kTask, 10, 5, "0");

ReadTrace with(bool keeps_text) {
  return [keeps_text](TraceInput input) { return read_agents_trace(std::move(input), keeps_text); };
}

}  // namespace

TEST_CASE("agents trace: prompts grow by what the tools gave, after the time that they took") {
  const auto plan = all_of(*with(false)(trace_input(kSample)));
  REQUIRE(plan.size() == 2);
  REQUIRE(plan[0].turns.size() == 3);
  CHECK(plan[0].turns[0].prompt_tokens == 1500);
  CHECK(plan[0].turns[0].output_tokens == 60);
  CHECK(plan[0].turns[0].think_time.count() == 0);
  CHECK(plan[0].turns[1].prompt_tokens == 2000 - 1500 - 60);
  CHECK(plan[0].turns[1].think_time == std::chrono::microseconds(250'500));
  CHECK(plan[0].turns[2].prompt_tokens == 1);  // thoughts of the answer are gone: less than before
  CHECK(plan[0].turns[0].text.empty());
  CHECK(plan[0].system_text.empty());
  CHECK(plan[1].turns.size() == 1);
  CHECK(plan[1].turns[0].prompt_tokens == 10);
}

TEST_CASE("agents trace: with texts, results of tools are what the user says next") {
  const auto plan = all_of(*with(true)(trace_input(kSample)));
  REQUIRE(plan.size() == 2);
  CHECK(plan[0].system_text == "You have a shell.");
  CHECK(plan[0].turns[0].text == "Find the error.");
  CHECK(plan[0].turns[1].text == "line 7: missing brace\nGo on.");
  CHECK(plan[0].turns[2].text == "line 7: missing brace");
  CHECK(plan[1].system_text.empty());
  CHECK(plan[1].turns[0].text == "Find the error.");  // not taken for messages of the conversation before
}

TEST_CASE("agents trace: what is no recording is named with its line") {
  CHECK(trace_refusal(with(false), kSample + "{}\n") == "trace:5: 'conversation_id' is missing");
  CHECK(trace_refusal(with(false), R"({"conversation_id":"a","recorded_prompt_tokens":-1})") ==
        "trace:1: 'recorded_prompt_tokens': expected a whole number from 0 to 1000000000, got -1");
  CHECK(trace_refusal(with(false), line_of("a", "", 5, 5, "1e12")) ==
        "trace:1: 'simulated_tool_delay_ms_after': expected at most 10^9");
  CHECK(
      trace_refusal(with(true),
                    R"({"conversation_id":"a","recorded_prompt_tokens":1,"recorded_completion_tokens":1})") ==
      "trace:1: 'messages' is missing");
}

TEST_CASE("agents trace: damaged recordings are refused or read, and nothing else") {
  CHECK(mistreat(with(true), kSample) == "");
}
