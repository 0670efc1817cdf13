// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/csv_trace.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/loadgen/workload/traces/trace_text.hpp"
#include "tests/support/test_data.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace azure_trace_test {
namespace {

const std::string kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n";
const std::string kSample = kHeader +
                            "2023-11-16 18:15:46.6805900,374,44\r\n"
                            "2023-11-16 18:15:50.9951690,396,109\r\n"
                            "2023-11-16 18:16:00,1,0\r\n"
                            "2023-11-17 00:00:00.5,7,1";  // and no end of the line

std::string refusal(const std::string& text) { return trace_refusal(read_azure_trace, text); }

}  // namespace

TEST_CASE("azure trace: times count from the first request, to 100 nanoseconds") {
  const auto source = read_azure_trace(trace_input(kSample));
  const auto plan = all_of(*source);
  REQUIRE(plan.size() == 3);
  CHECK(plan[0].start == nanoseconds(0));
  CHECK(plan[1].start == nanoseconds(4'314'579'000));
  CHECK(plan[1].turns.at(0).prompt_tokens == 396);
  CHECK(plan[1].turns.at(0).output_tokens == 109);
  CHECK(plan[2].start == std::chrono::hours(5) + std::chrono::minutes(44) + nanoseconds(13'819'410'000));
  CHECK(source->warnings() ==
        std::vector<std::string>{"trace: requests left out because they got no answer: 1"});
}

TEST_CASE(
    "azure trace: columns may come in any order with others between, as in the traces of 2024 and 2025") {
  const auto plan = all_of(*read_azure_trace(trace_input(
      "NumImages,GeneratedTokens,TIMESTAMP,ContextTokens\n0,5,2024-05-10 00:00:00.009930+00:00,17\n")));
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].turns.at(0).prompt_tokens == 17);
  CHECK(plan[0].turns.at(0).output_tokens == 5);
}

TEST_CASE("azure trace: timestamps are read with fraction and zone, and nothing else is") {
  using std::chrono::hours;
  const auto noon = parse_timestamp("2024-02-29 12:00:00");
  REQUIRE(noon);
  CHECK(*parse_timestamp("2024-02-29T12:00:00Z") == *noon);
  CHECK(*parse_timestamp("2024-02-29 13:30:00+01:30") == *noon);
  CHECK(*parse_timestamp("2024-02-29 05:00:00.001-07:00") == *noon + milliseconds(1));
  CHECK(*parse_timestamp("2024-03-01 12:00:00") == *noon + hours(24));
  CHECK(*parse_timestamp("1970-01-01 00:00:00.123456789") == nanoseconds(123456789));
  for (const char* wrong :
       {"", "12", "2023-02-29 12:00:00", "2024-13-01 12:00:00", "2024-02-29 24:00:00", "2024-02-29 12:60:00",
        "2024-02-29 12:00:00.", "2024-02-29 12:00:00.1234567890", "2024-02-29 12:00:00.99999999999999999999",
        "2024-02-29 12:00:00 ", "2024-02-29 12:00:00+1", "2024-02-29x12:00:00", "-024-02-29 12:00:00",
        "2024-02-29 12:00:00+00:00x", "9999-02-28 12:00:00", "2024-+2-29 12:00:00"})
    CHECK_MESSAGE(!parse_timestamp(wrong), wrong);
}

TEST_CASE("azure trace: what makes no sense is refused with file, line, column and reason") {
  CHECK(refusal("") ==
        "trace:1: expected a line with the columns 'TIMESTAMP', 'ContextTokens', 'GeneratedTokens', got an "
        "empty file");
  CHECK(refusal("TIMESTAMP,Tokens\n") ==
        "trace:1: expected the columns 'TIMESTAMP', 'ContextTokens', 'GeneratedTokens', got "
        "'TIMESTAMP,Tokens' without "
        "'ContextTokens', 'GeneratedTokens'");
  CHECK(refusal(kHeader + "2023-11-16 18:15:46,374\n") ==
        "trace:2: expected 3 values, got 2 in '2023-11-16 18:15:46,374'");
  CHECK(refusal(kHeader + "yesterday,374,44\n") ==
        "trace:2: column 'TIMESTAMP': expected a time like 2023-11-16 18:15:46.6805900, got 'yesterday'");
  CHECK(refusal(kHeader + "2023-11-16 18:15:46,-374,44\n") ==
        "trace:2: column 'ContextTokens': expected a whole number from 0 to 1000000000, got '-374'");
  CHECK(contains(refusal(kHeader + "2023-11-16 18:15:46,374,4x\n"), "column 'GeneratedTokens'"));
  CHECK(contains(refusal(kHeader + "2023-11-16 18:15:46,374,4.5\n"), "got '4.5'"));
  CHECK(contains(refusal(kHeader + "2023-11-16 18:15:46,,4\n"), "got ''"));
  CHECK(refusal(kHeader + "2023-11-16 18:15:46,1,1\n\n2023-11-16 18:15:45.5,1,1\n") ==
        "trace:4: expected times that never decrease, got one 0.5 s before that of the request before");
}

TEST_CASE("azure trace: a header alone holds no requests") {
  CHECK(all_of(*read_azure_trace(trace_input(kHeader))).empty());
}

TEST_CASE("azure trace: changed bytes are read or refused, never worse") {
  CHECK(mistreat(read_azure_trace, kSample) == "");
}

TEST_CASE("azure trace: the conversation trace of 2023 has its 19,366 requests and lengths") {
  const auto file = troupe::find_test_data("traces/AzureLLMInferenceTrace_conv.csv");
  if (!file) return;
  const auto source = read_azure_trace(open_trace_input(file->string()));
  double prompt_tokens = 0;
  double output_tokens = 0;
  const auto plan = all_of(*source);
  for (const auto& conversation : plan) {
    prompt_tokens += conversation.turns.at(0).prompt_tokens;
    output_tokens += conversation.turns.at(0).output_tokens;
  }
  CHECK(plan.size() == 19366);
  CHECK(prompt_tokens / 19366 == doctest::Approx(1154.7).epsilon(1e-4));
  CHECK(output_tokens / 19366 == doctest::Approx(211.1).epsilon(2e-4));
  CHECK(std::chrono::duration<double>(plan.back().start).count() == doctest::Approx(3501.7).epsilon(1e-4));
  CHECK(source->warnings().empty());
}

}  // namespace azure_trace_test
