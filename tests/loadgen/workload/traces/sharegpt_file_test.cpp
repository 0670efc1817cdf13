// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/sharegpt_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/loadgen/workload/traces/trace_text.hpp"
#include "tests/support/test_data.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace sharegpt_file_test {
namespace {

std::string said(const std::string& from, const std::string& value) {
  return R"({"from": ")" + from + R"(", "value": ")" + value + "\"}";
}

const std::string kSample =
    "[\n {\"id\": \"a\", \"conversations\": [" + said("human", "one two three four five six") + ", " +
    said("gpt", "a {brace} and a \\\"quote\\\"") + ", " + said("human", "again") + ", " + said("gpt", "yes") +
    ", " + said("human", "no reply") + "]},\n {\"id\": \"b\", \"conversations\": [" + said("gpt", "I began") +
    "]},\n {\"conversations\": []}]\n";

ReadTrace with(ShareGptOptions options) {
  return [options](TraceInput input) { return read_sharegpt_file(std::move(input), options); };
}

std::string refusal(const std::string& text) { return trace_refusal(with({}), text); }

}  // namespace

TEST_CASE("sharegpt file: a conversation is kept up to its last reply, with lengths estimated from words") {
  const auto source = with({})(trace_input(kSample));
  const auto plan = all_of(*source);
  REQUIRE(plan.size() == 1);
  REQUIRE(plan[0].turns.size() == 2);
  CHECK(plan[0].turns[0].text == "one two three four five six");
  CHECK(plan[0].turns[0].prompt_tokens == 8);  // 6 words
  CHECK(plan[0].turns[0].output_tokens == 7);  // 5 words
  CHECK(plan[0].turns[1].text == "again");
  CHECK(plan[0].turns[0].answer.empty());  // another model's words are not the right ones
  CHECK(source->warnings() ==
        std::vector<std::string>{
            "trace: lengths are estimated from words",
            "trace: left out 2 of 3 conversations without a usable first question and reply"});
}

TEST_CASE("sharegpt file: without texts only the lengths remain") {
  const auto plan = all_of(*with({.keeps_text = false})(trace_input(kSample)));
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].turns[0].text.empty());
  CHECK(plan[0].turns[0].prompt_tokens == 8);
}

TEST_CASE("sharegpt file: unusual lengths can be left out as vLLM does") {
  const auto words = [](int count) {
    std::string text = "w";
    for (int i = 1; i < count; ++i) text += " w";
    return text;
  };
  const auto keeps = [&](int prompt_words, int reply_words) {
    const auto text = "[{\"conversations\": [" + said("human", words(prompt_words)) + "," +
                      said("gpt", words(reply_words)) + "]}]";
    return all_of(*with({.keeps_text = true, .only_usual_lengths = true})(trace_input(text))).size() == 1;
  };
  CHECK(keeps(3, 3));  // 4 tokens each
  CHECK_FALSE(keeps(2, 3));
  CHECK_FALSE(keeps(3, 2));
  CHECK(keeps(768, 768));
  CHECK_FALSE(keeps(769, 10));
  CHECK_FALSE(keeps(768, 770));
}

TEST_CASE("sharegpt file: system messages are passed over") {
  const auto plan =
      all_of(*with({})(trace_input("[{\"conversations\": [" + said("system", "Be brief.") + "," +
                                   said("user", "Hi there") + "," + said("assistant", "Hello") + "]}]")));
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].turns.at(0).text == "Hi there");
}

TEST_CASE("sharegpt file: what makes no sense is refused with file, line and reason") {
  CHECK(refusal("") == "trace:1: expected a JSON list, got the end of the file");
  CHECK(refusal("{}") == "trace:1: expected a JSON list, got '{'");
  CHECK(refusal("[]") == "trace:1: expected a list of conversations, got an empty one");
  CHECK(refusal("[{\"conversations\": []},\n") ==
        "trace:2: expected an object in the list, got the end of the file");
  CHECK(refusal("[{\"conversations\": []}\n") ==
        "trace:2: expected ',' or ']' after an object of the list, got the end of the file");
  CHECK(refusal("[{\"conversations\": []},]") == "trace:1: expected an object after the comma, got ']'");
  CHECK(refusal("[{\"conversations\": []}] x") == "trace:1: expected the end of the file, got 'x'");
  CHECK(refusal("[\n\n{\"conversations\": [\n\n") ==
        "trace:3: expected this object to end, got the end of the file");
  CHECK(refusal("[{\"id\": 1}]") == "trace:1: 'conversations' is missing");
  CHECK(refusal("[{\"conversations\": [5]}]") == "trace:1: 'conversations': expected an object, got number");
  CHECK(refusal("[{\"conversations\": [{\"from\": \"human\", \"value\": 5}]}]") ==
        "trace:1: 'conversations': 'value': expected a text, got 5");
  CHECK(contains(refusal("[\n{\"conversations\": [}]"), "trace:2: expected"));
}

TEST_CASE("sharegpt file: changed bytes are read or refused, never worse") {
  CHECK(mistreat(with({}), kSample) == "");
}

TEST_CASE("sharegpt file: real files in this format are read whole") {
  const auto oasst = troupe::find_test_data("chat/oasst_en_100_sharegpt.json");
  const auto fastchat = troupe::find_test_data("chat/fastchat_dummy_conversation.json");
  if (!oasst || !fastchat) return;
  for (const auto& file : {*oasst, *fastchat}) {
    const auto plan = all_of(*with({})(open_trace_input(file.string())));
    CHECK(plan.size() > 50);
    CHECK(std::all_of(plan.begin(), plan.end(), [](const auto& c) { return !c.turns.at(0).text.empty(); }));
  }
}

}  // namespace sharegpt_file_test
