// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/mooncake_trace.hpp"

#include <doctest/doctest.h>

#include <string>
#include <unordered_set>

#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/loadgen/workload/traces/trace_text.hpp"
#include "tests/support/test_data.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace mooncake_trace_test {
namespace {

const std::string kSample =
    "{\"timestamp\": 3000, \"input_length\": 1030, \"output_length\": 500, \"hash_ids\": [0, 1, 2]}\n"
    "{\"timestamp\": 6500, \"input_length\": 512, \"output_length\": 7, \"hash_ids\": [0]}\n"
    "{\"timestamp\": 6500, \"input_length\": 300, \"output_length\": 0, \"hash_ids\": [9]}\n";

std::string refusal(const std::string& text) { return trace_refusal(read_mooncake_trace, text); }

}  // namespace

TEST_CASE("mooncake trace: each id is a prefix block of 512 tokens, the last one the rest") {
  const auto source = read_mooncake_trace(trace_input(kSample));
  const auto plan = all_of(*source);
  REQUIRE(plan.size() == 2);
  REQUIRE(plan[0].prefix.size() == 3);
  CHECK(plan[0].prefix[0].id == 0);
  CHECK(plan[0].prefix[0].num_tokens == 512);
  CHECK(plan[0].prefix[2].id == 2);
  CHECK(plan[0].prefix[2].num_tokens == 6);
  CHECK(plan[0].turns.at(0).prompt_tokens == 0);
  CHECK(plan[0].turns.at(0).output_tokens == 500);
  CHECK(plan[1].start == std::chrono::milliseconds(3500));
  CHECK(plan[1].prefix.at(0).id == plan[0].prefix[0].id);
  CHECK(source->warnings() ==
        std::vector<std::string>{"trace: requests left out because they got no answer: 1"});
}

TEST_CASE("mooncake trace: tokens without an id are the request's own") {
  const auto plan = all_of(*read_mooncake_trace(
      trace_input("{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [4]}\n"
                  "{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 5, \"hash_ids\": []}\n")));
  REQUIRE(plan.size() == 2);
  CHECK(plan[0].turns.at(0).prompt_tokens == 488);
  CHECK(plan[1].turns.at(0).prompt_tokens == 100);
}

TEST_CASE("mooncake trace: what makes no sense is refused with file, line, member and reason") {
  const auto with = [](const std::string& timestamp, const std::string& input, const std::string& ids) {
    return "{\"timestamp\": " + timestamp + ", \"input_length\": " + input +
           ", \"output_length\": 1, \"hash_ids\": " + ids + "}\n";
  };
  CHECK(refusal("") == "trace:1: expected lines of JSON, got an empty file");
  CHECK(contains(refusal("\n{\"timestamp\": 1\n"), "trace:2: expected JSON: "));
  CHECK(refusal("[1]\n") == "trace:1: expected an object, got array");
  CHECK(refusal("{\"timestamp\": 1}\n") == "trace:1: 'input_length' is missing");
  CHECK(refusal(with("-1", "5", "[]")) == "trace:1: 'timestamp': expected a number from 0, got -1");
  CHECK(refusal(with("1", "-5", "[]")) ==
        "trace:1: 'input_length': expected a whole number from 0 to 1000000000, got -5");
  CHECK(refusal(with("1", "\"5\"", "[]")) ==
        "trace:1: 'input_length': expected a whole number from 0 to 1000000000, got \"5\"");
  CHECK(refusal(with("1", "5", "{}")) == "trace:1: 'hash_ids': expected a list, got {}");
  CHECK(refusal(with("1", "5", "[\"a\"]")) ==
        "trace:1: 'hash_ids': expected whole numbers of at least 0, got \"a\"");
  CHECK(contains(refusal(with("1", "5", "[1, 2]")),
                 "expected an id for each 512 tokens of input_length, got more"));
  CHECK(contains(refusal(with("2000", "5", "[1]") + with("1000", "5", "[1]")),
                 "trace:2: expected times that never decrease, got one 1 s before"));
}

TEST_CASE("mooncake trace: changed bytes are read or refused, never worse") {
  CHECK(mistreat(read_mooncake_trace, kSample) == "");
}

TEST_CASE("mooncake trace: a line that is nested without end is refused") {
  const std::string line = R"({"timestamp":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  CHECK(trace_refusal(read_mooncake_trace, line) == "trace:1: expected JSON of at most 64 levels");
}

TEST_CASE("mooncake trace: the conversation trace has its 12,031 requests, lengths and shared blocks") {
  const auto file = troupe::find_test_data("traces/mooncake_conversation_trace.jsonl");
  if (!file) return;
  const auto source = read_mooncake_trace(open_trace_input(file->string()));
  std::unordered_set<std::uint64_t> seen;
  double blocks = 0;
  double input_tokens = 0;
  double output_tokens = 0;
  const auto plan = all_of(*source);
  for (const auto& conversation : plan) {
    for (const auto& block : conversation.prefix) {
      seen.insert(block.id);
      input_tokens += block.num_tokens;
      ++blocks;
    }
    input_tokens += conversation.turns.at(0).prompt_tokens;
    output_tokens += conversation.turns.at(0).output_tokens;
  }
  CHECK(plan.size() == 12031);
  CHECK(input_tokens / 12031 == doctest::Approx(12035.1).epsilon(1e-4));
  CHECK(output_tokens / 12031 == doctest::Approx(342.6).epsilon(2e-4));
  CHECK(1 - static_cast<double>(seen.size()) / blocks == doctest::Approx(0.366).epsilon(2e-3));
}

}  // namespace mooncake_trace_test
