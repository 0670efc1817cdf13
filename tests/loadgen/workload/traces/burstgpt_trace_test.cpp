// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/csv_trace.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/loadgen/workload/traces/trace_text.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace {

const std::string kOldSample =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45,ChatGPT,1087,230,1317,Conversation log\n"
    "118,GPT-4,417,0,417,\"API, log\"\n"
    "118.5,GPT-4,9,2,11,API log\n";
const std::string kNewSample =
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5.0,17,1.2,ChatGPT,472,18,490,Conversation log\n"
    "9.5,17,0.3,ChatGPT,600,20,620,Conversation log\n";

std::string refusal(const std::string& text) { return trace_refusal(read_burstgpt_trace, text); }

}  // namespace

TEST_CASE("burstgpt trace: rows become conversations, failures are left out and counted") {
  const auto source = read_burstgpt_trace(trace_input(kOldSample));
  const auto plan = all_of(*source);
  REQUIRE(plan.size() == 3);
  CHECK(plan[1].start == std::chrono::seconds(40));
  CHECK(plan[1].turns.at(0).prompt_tokens == 1087);
  CHECK(plan[1].turns.at(0).output_tokens == 230);
  CHECK(plan[2].start == std::chrono::milliseconds(113'500));
  CHECK(source->warnings() ==
        std::vector<std::string>{"trace: requests left out because they got no answer: 1"});
}

TEST_CASE("burstgpt trace: session and elapsed time may be there too") {
  const auto plan = all_of(*read_burstgpt_trace(trace_input(kNewSample)));
  REQUIRE(plan.size() == 2);
  CHECK(plan[1].start == std::chrono::milliseconds(4500));
  CHECK(plan[1].turns.at(0).prompt_tokens == 600);
}

TEST_CASE("burstgpt trace: what makes no sense is refused with file, line, column and reason") {
  const std::string header = "Timestamp,Request tokens,Response tokens\n";
  CHECK(contains(refusal("Timestamp,Request tokens\n"),
                 "trace:1: expected the columns 'Timestamp', 'Request tokens', 'Response tokens'"));
  CHECK(contains(refusal("Timestamp,Request tokens\n"), "without 'Response tokens'"));
  CHECK(refusal(header + "-1,5,5\n") ==
        "trace:2: column 'Timestamp': expected seconds of at least 0, got '-1'");
  CHECK(contains(refusal(header + "nan,5,5\n"), "column 'Timestamp'"));
  CHECK(contains(refusal(header + "1e300,5,5\n"), "column 'Timestamp'"));
  CHECK(contains(refusal(header + "7,5,5\n6,5,5\n"), "trace:3: expected times that never decrease"));
  CHECK(contains(refusal(header + "7,five,5\n"), "column 'Request tokens'"));
}

TEST_CASE("burstgpt trace: changed bytes are read or refused, never worse") {
  CHECK(mistreat(read_burstgpt_trace, kOldSample) == "");
}
