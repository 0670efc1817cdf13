// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/contents/question_content.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "tests/loadgen/workload/planned_input.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;

namespace {

const std::string kDemoQuestions = TROUPE_SOURCE_DIR "/models/demo/held_out_questions.json";

WorkloadSettings questions_in(const std::string& file) {
  auto settings = preset("questions");
  settings.classes.front().questions_file = file;
  return settings;
}

}  // namespace

TEST_CASE("questions: every question of the demo model is asked once before any is asked twice") {
  auto settings = questions_in(kDemoQuestions);
  settings.max_conversations = 2 * 292;
  const auto plan = all_of(settings, 1);
  REQUIRE(plan.size() == 2 * 292);
  const auto key_of = [](const PlannedConversation& c) {
    std::string key = c.system_text;
    for (const auto& turn : c.turns) key += "\n" + turn.text;
    return key;
  };
  std::multiset<std::string> first_round;
  std::multiset<std::string> second_round;
  for (std::size_t i = 0; i < plan.size(); ++i)
    (i < 292 ? first_round : second_round).insert(key_of(plan[i]));
  CHECK(first_round == second_round);
  CHECK(key_of(plan[0]) != key_of(plan[292]));  // each round has its own order
}

TEST_CASE("questions: turns end with the expected answer, and what the assistant said before is one too") {
  const TemporaryFile file(R"([{"category": "c", "messages": [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "My name is Ada."}, {"role": "assistant", "content": "Hello Ada."},
    {"role": "user", "content": "What is my name?"}], "expected": "Ada", "expected_tokens": 3}])");
  auto settings = questions_in(file.path());
  settings.classes.front().think_time_s = fixed(2);
  settings.max_conversations = 1;
  const auto plan = all_of(settings, 1);
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].system_text == "Be kind.");
  REQUIRE(plan[0].turns.size() == 2);
  CHECK(plan[0].turns[0].text == "My name is Ada.");
  CHECK(plan[0].turns[0].answer == "Hello Ada.");
  CHECK(plan[0].turns[0].think_time.count() == 0);
  CHECK(plan[0].turns[1].text == "What is my name?");
  CHECK(plan[0].turns[1].answer == "Ada");
  CHECK(plan[0].turns[1].answer_tokens == 3);
  CHECK(plan[0].turns[0].answer_tokens == 0);
  CHECK(plan[0].turns[1].think_time == std::chrono::seconds(2));
  CHECK(plan[0].turns[1].output_tokens == 0);  // until the model ends
}

TEST_CASE("questions: only the wanted categories are asked, and unknown ones are refused") {
  auto settings = questions_in(kDemoQuestions);
  settings.classes.front().categories = {"weekdays"};
  settings.max_conversations = 20;
  for (const auto& conversation : all_of(settings, 1))
    CHECK(conversation.turns.back().answer.find("day") != std::string::npos);
  settings.classes.front().categories = {"poetry"};
  CHECK(contains(refusal_of(settings), "expected a category among addition, conversation"));
  CHECK(contains(refusal_of(settings), "'poetry'"));
}

TEST_CASE("questions: files that make no sense are refused with line and reason") {
  const auto refusal = [](const std::string& text) {
    const TemporaryFile file(text);
    return refusal_of(questions_in(file.path()));
  };
  CHECK(contains(refusal(""), ":1: expected a JSON list, got the end of the file"));
  CHECK(contains(refusal("[]"), "got an empty one"));
  CHECK(contains(refusal("[\n{\"messages\": []"), ":2: expected this object to end"));
  CHECK(contains(refusal("[\n{\"messages\": 4}]"), ":2: 'messages': expected a list, got 4"));
  CHECK(contains(refusal(R"([{"messages": [], "expected": "x"}])"), "expected the user to speak last"));
  CHECK(contains(refusal(R"([{"messages": [{"role": "assistant", "content": "x"}], "expected": "x"}])"),
                 "expected a text of user as number 1, got one of 'assistant'"));
  CHECK(contains(refusal(R"([{"messages": [{"role": "user", "content": "x"}]}])"), "'expected'"));
  CHECK(contains(refusal_of(questions_in("/nonexistent/q.json")), "/nonexistent/q.json: cannot be opened"));
}
