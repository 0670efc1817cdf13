// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/plan_file.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/loadgen/workload/traces/trace_text.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;
using std::chrono::milliseconds;

namespace {

const std::string kHead = R"({"troupe_plan":1,"classes":[{"name":"a"}]})";

WorkloadSettings rich_workload() {
  WorkloadSettings settings;
  settings.max_conversations = 50;
  settings.classes.resize(2);
  settings.classes[0].request_class = {.name = "chat",
                                       .objectives = {.time_to_first_token = milliseconds(200),
                                                      .time_per_output_token = milliseconds(50),
                                                      .end_to_end = milliseconds(9000)},
                                       .ignore_eos = true,
                                       .max_tokens = 77};
  settings.classes[0].num_turns = uniform(1, 4);
  settings.classes[0].prompt_tokens = uniform(1, 500);
  settings.classes[0].think_time_s = uniform(0.1, 3);
  settings.classes[0].prefix = {.count = 5, .tokens = 64, .zipf_exponent = 1};
  settings.classes[1].request_class.name = "questions";
  settings.classes[1].content = ClassSettings::Content::kQuestions;
  settings.classes[1].questions_file = TROUPE_SOURCE_DIR "/models/demo/held_out_questions.json";
  return settings;
}

std::string saved(const std::vector<PlannedConversation>& plan, const std::vector<RequestClass>& classes) {
  std::ostringstream out;
  PlanWriter writer(out, classes);
  for (const auto& conversation : plan) writer.write(conversation);
  return out.str();
}

std::string refusal(const std::string& text) { return trace_refusal(read_plan_file, text); }

}  // namespace

TEST_CASE("plan file: a saved plan is replayed as it was: times, classes, prefixes, turns, texts, answers") {
  const auto settings = rich_workload();
  const auto text = saved(all_of(settings, 4), request_classes(settings));
  const TemporaryFile file(text);

  WorkloadSettings replay;
  replay.arrivals.kind = ArrivalSettings::Kind::kReplay;
  replay.classes[0].content = ClassSettings::Content::kTrace;
  replay.classes[0].trace.file = file.path();
  replay.classes[0].trace.format = TraceSettings::Format::kPlan;
  const auto plan = all_of(replay, 99);
  CHECK(plan.size() == 50);
  CHECK(plan[49].number == 49);
  CHECK(saved(plan, request_classes(replay)) == text);

  const auto classes = request_classes(replay);
  REQUIRE(classes.size() == 2);
  CHECK(classes[0].name == "chat");
  CHECK(classes[0].objectives.time_per_output_token == milliseconds(50));
  CHECK(classes[0].ignore_eos);
  CHECK(classes[0].max_tokens == 77);
}

TEST_CASE("plan file: clients that hang up or stop reading do so again") {
  PlannedConversation conversation;
  conversation.turns.resize(2);
  conversation.turns[0].cancelled_after = milliseconds(7);
  conversation.turns[1].stops_reading_after = milliseconds(0);
  const auto plan = all_of(*read_plan_file(trace_input(saved({conversation}, {RequestClass{}}))));
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].turns[0].cancelled_after == milliseconds(7));
  CHECK(!plan[0].turns[0].stops_reading_after);
  CHECK(plan[0].turns[1].stops_reading_after == milliseconds(0));
}

TEST_CASE("plan file: bytes that are not UTF-8 don't stop the writer") {
  PlannedConversation conversation;
  conversation.turns.resize(1);
  conversation.turns[0].text = "\xFF";
  CHECK(all_of(*read_plan_file(trace_input(saved({conversation}, {RequestClass{}})))).size() == 1);
}

TEST_CASE("plan file: what makes no sense is refused with file, line and reason") {
  CHECK(refusal("") == "trace:1: expected a plan, got an empty file");
  CHECK(refusal("{}") == "trace:1: 'troupe_plan' is missing");
  CHECK(refusal(R"({"troupe_plan":2,"classes":[]})") == "trace:1: 'troupe_plan': expected version 1, got 2");
  CHECK(refusal(R"({"troupe_plan":1,"classes":[]})") == "trace:1: 'classes': expected at least one");
  CHECK(refusal(R"({"troupe_plan":1,"classes":[5]})") ==
        "trace:1: 'classes': expected an object, got number");
  CHECK(refusal(kHead + "\n{\"turns\":[]}") == "trace:2: 'turns': expected at least one");
  CHECK(refusal(kHead + "\n{\"class\":1,\"turns\":[]}") ==
        "trace:2: 'class': expected one of the 1 classes from 0, got 1");
  CHECK(refusal(kHead + "\n{\"turns\":[5]}") == "trace:2: 'turns': expected an object, got number");
  CHECK(refusal(kHead + "\n{\"turns\":[{\"prompt_tokens\":1}]}") ==
        "trace:2: 'turns': 'output_tokens' is missing");
  CHECK(refusal(kHead + "\n{\"start_ns\":-5}") ==
        "trace:2: 'start_ns': expected a whole number from 0 to 9223372036854775807, got -5");
  CHECK(contains(refusal(kHead + "\n{\"start_ns\":18446744073709551615}"),
                 "trace:2: 'start_ns': expected a whole number from 0"));
  CHECK(refusal(kHead + "\n{\"prefix\":[[1]]}") == "trace:2: 'prefix': expected pairs of id and tokens");
  const std::string turns = R"("turns":[{"prompt_tokens":1,"output_tokens":1}]})";
  CHECK(
      contains(refusal(kHead + "\n{\"start_ns\":2000000000," + turns + "\n{\"start_ns\":1000000000," + turns),
               "trace:3: expected times that never decrease, got one 1 s before"));
}

TEST_CASE("plan file: changed bytes are read or refused, never worse") {
  auto settings = rich_workload();
  settings.max_conversations = 6;
  CHECK(mistreat(read_plan_file, saved(all_of(settings, 1), request_classes(settings))) == "");
}
