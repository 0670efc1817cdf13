// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/workload_settings.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "tests/loadgen/workload/planned_input.hpp"
#include "tests/support/test_data.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;
using std::chrono::seconds;
using ArrivalKind = ArrivalSettings::Kind;
using Plan = std::vector<PlannedConversation>;

namespace {

WorkloadSettings varied() {
  WorkloadSettings settings;
  settings.max_conversations = 2000;
  settings.arrivals.rate = 10;
  auto& c = settings.classes.front();
  c.prompt_tokens = uniform(10, 500);
  c.output_tokens = uniform(10, 300);
  c.num_turns = uniform(1, 5);
  c.think_time_s = uniform(1, 9);
  c.prefix = {.count = 10, .tokens = 64};
  return settings;
}

WorkloadSettings trace_of(const std::string& file, TraceSettings::Format format) {
  WorkloadSettings settings;
  settings.max_conversations = 0;
  settings.arrivals.kind = ArrivalKind::kReplay;
  settings.classes.front().content = ClassSettings::Content::kTrace;
  settings.classes.front().trace.file = file;
  settings.classes.front().trace.format = format;
  return settings;
}

// Everything of a plan that `part` looks at.
template <typename Value, typename Part>
std::vector<Value> each(const Plan& plan, const Part& part) {
  std::vector<Value> values;
  for (const auto& conversation : plan) part(conversation, values);
  return values;
}

std::vector<std::int64_t> starts(const Plan& plan) {
  return each<std::int64_t>(plan, [](const auto& c, auto& out) { out.push_back(c.start.count()); });
}
std::vector<std::uint64_t> classes(const Plan& plan) {
  return each<std::uint64_t>(plan, [](const auto& c, auto& out) { out.push_back(c.request_class); });
}
std::vector<std::uint64_t> prefixes(const Plan& plan) {
  return each<std::uint64_t>(plan, [](const auto& c, auto& out) {
    for (const auto& block : c.prefix) out.push_back(block.id);
  });
}
std::vector<std::uint64_t> first_prompts(const Plan& plan) {
  return each<std::uint64_t>(plan,
                             [](const auto& c, auto& out) { out.push_back(c.turns.front().prompt_tokens); });
}
std::vector<std::uint64_t> first_outputs(const Plan& plan) {
  return each<std::uint64_t>(plan,
                             [](const auto& c, auto& out) { out.push_back(c.turns.front().output_tokens); });
}
std::vector<std::uint64_t> turn_counts(const Plan& plan) {
  return each<std::uint64_t>(plan, [](const auto& c, auto& out) { out.push_back(c.turns.size()); });
}

const std::string kAzureSample =
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,100,10\n2023-11-16 18:00:04,200,20\n"
    "2023-11-16 18:00:10,300,30\n";

}  // namespace

TEST_CASE("workload: numbers count from 0, starts never decrease, and every conversation has a turn") {
  const auto plan = all_of(varied(), 1);
  REQUIRE(plan.size() == 2000);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    CHECK(plan[i].number == i);
    CHECK_FALSE(plan[i].turns.empty());
  }
  const auto times = starts(plan);
  CHECK(std::is_sorted(times.begin(), times.end()));
}

TEST_CASE("workload: the same seed makes the same plan, another seed another one") {
  const auto plan = all_of(varied(), 1);
  const auto again = all_of(varied(), 1);
  const auto other = all_of(varied(), 2);
  CHECK(starts(plan) == starts(again));
  CHECK(first_prompts(plan) == first_prompts(again));
  CHECK(prefixes(plan) == prefixes(again));
  CHECK(starts(plan) != starts(other));
  CHECK(first_prompts(plan) != first_prompts(other));
}

TEST_CASE("workload: changing one distribution leaves all other draws alone") {
  const auto plan = all_of(varied(), 1);
  auto settings = varied();
  settings.classes.front().num_turns = fixed(7);
  settings.arrivals.kind = ArrivalKind::kGamma;
  settings.arrivals.burstiness = 0.3;
  auto changed = all_of(settings, 1);
  CHECK(starts(plan) != starts(changed));
  CHECK(turn_counts(plan) != turn_counts(changed));
  CHECK(first_prompts(plan) == first_prompts(changed));
  CHECK(first_outputs(plan) == first_outputs(changed));
  CHECK(prefixes(plan) == prefixes(changed));

  settings = varied();
  settings.classes.front().prompt_tokens = fixed(1);
  settings.classes.front().prefix.count = 3;
  changed = all_of(settings, 1);
  CHECK(starts(plan) == starts(changed));
  CHECK(turn_counts(plan) == turn_counts(changed));
  CHECK(first_outputs(plan) == first_outputs(changed));
}

TEST_CASE("workload: a class added later leaves arrivals alone and takes its share") {
  auto settings = varied();
  settings.classes.resize(2);
  settings.classes[1].request_class.name = "other";
  settings.classes[1].share = 3;
  const auto plan = all_of(settings, 1);
  CHECK(starts(plan) == starts(all_of(varied(), 1)));
  const auto of = classes(plan);
  CHECK(std::count(of.begin(), of.end(), 1) == doctest::Approx(1500).epsilon(0.05));
}

TEST_CASE("workload: turns, think times and lengths have their means") {
  const auto plan = all_of(varied(), 3);
  double turns = 0;
  double prompt_tokens = 0;
  double think_s = 0;
  for (const auto& conversation : plan) {
    CHECK(conversation.turns.front().think_time.count() == 0);
    turns += static_cast<double>(conversation.turns.size());
    for (const auto& turn : conversation.turns) {
      prompt_tokens += turn.prompt_tokens;
      think_s += std::chrono::duration<double>(turn.think_time).count();
    }
  }
  CHECK(turns / 2000 == doctest::Approx(3).epsilon(0.03));
  CHECK(prompt_tokens / turns == doctest::Approx(255).epsilon(0.03));
  CHECK(think_s / (turns - 2000) == doctest::Approx(5).epsilon(0.03));
}

TEST_CASE("workload: prefixes are as popular as Zipf says, and classes share none") {
  auto settings = varied();
  settings.max_conversations = 20000;
  settings.classes.front().prefix = {.count = 4, .tokens = 64, .zipf_exponent = 1};
  std::map<std::uint64_t, int> counts;
  for (const auto id : prefixes(all_of(settings, 1))) ++counts[id];
  REQUIRE(counts.size() == 4);
  std::vector<int> popularity;
  for (const auto& [id, count] : counts) popularity.push_back(count);
  std::sort(popularity.rbegin(), popularity.rend());
  for (int k = 0; k < 4; ++k)
    CHECK(popularity[k] == doctest::Approx(20000 / (k + 1) / (25.0 / 12)).epsilon(0.05));

  settings.classes.push_back(settings.classes.front());
  settings.classes[1].request_class.name = "other";
  std::set<std::uint64_t> ids;
  for (const auto id : prefixes(all_of(settings, 1))) ids.insert(id);
  CHECK(ids.size() == 8);
}

TEST_CASE("workload: uniform prefixes are equally popular") {
  auto settings = varied();
  settings.max_conversations = 20000;
  std::map<std::uint64_t, int> counts;
  for (const auto id : prefixes(all_of(settings, 1))) ++counts[id];
  REQUIRE(counts.size() == 10);
  for (const auto& [id, count] : counts) CHECK(count == doctest::Approx(2000).epsilon(0.1));
}

TEST_CASE("workload: the duration ends the plan, whatever the count") {
  auto settings = varied();
  settings.max_conversations = 0;
  settings.duration_s = 20;
  const auto plan = all_of(settings, 1);
  CHECK(plan.size() == doctest::Approx(200).epsilon(0.3));
  CHECK(plan.back().start < seconds(20));
}

TEST_CASE("workload: conversation n is the same in a longer plan") {
  auto settings = varied();
  const auto longer = first_prompts(all_of(settings, 1));
  settings.max_conversations = 100;
  const auto shorter = first_prompts(all_of(settings, 1));
  CHECK(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST_CASE("workload: in closed loop nothing has a start, and users pause between conversations") {
  auto settings = varied();
  settings.arrivals.kind = ArrivalKind::kClosed;
  settings.arrivals.users = 8;
  settings.arrivals.pause_s = fixed(1.5);
  for (const auto& conversation : all_of(settings, 1)) {
    CHECK(conversation.start.count() == 0);
    CHECK(conversation.turns.front().think_time == std::chrono::milliseconds(1500));
  }
}

TEST_CASE("workload: in closed loop a trace's times don't matter") {
  const TemporaryFile file(kAzureSample);
  auto settings = trace_of(file.path(), TraceSettings::Format::kAzure);
  settings.arrivals.kind = ArrivalKind::kClosed;
  CHECK(starts(all_of(settings, 1)) == std::vector<std::int64_t>{0, 0, 0});
}

TEST_CASE("workload: a trace's own times are replayed at the speed asked for") {
  const TemporaryFile file(kAzureSample);
  auto settings = trace_of(file.path(), TraceSettings::Format::kAzure);
  settings.arrivals.speed = 4;
  const auto plan = all_of(settings, 1);
  CHECK(starts(plan) == std::vector<std::int64_t>{0, 1'000'000'000, 2'500'000'000});
  CHECK(first_prompts(plan) == std::vector<std::uint64_t>{100, 200, 300});
}

TEST_CASE("workload: a trace's lengths can come at other times, and begin anew at the end") {
  const TemporaryFile file(kAzureSample);
  auto settings = trace_of(file.path(), TraceSettings::Format::kAzure);
  settings.arrivals.kind = ArrivalKind::kConstant;
  settings.arrivals.rate = 1;
  CHECK(all_of(settings, 1).size() == 3);
  settings.classes.front().repeats = true;
  settings.max_conversations = 5;
  const auto plan = all_of(settings, 1);
  CHECK(first_prompts(plan) == std::vector<std::uint64_t>{100, 200, 300, 100, 200});
  CHECK(plan.back().start == seconds(4));
}

TEST_CASE("workload: a repeated trace shares prefixes within a round, not across rounds") {
  const TemporaryFile file(
      "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 2]}\n"
      "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 3]}\n");
  auto settings = trace_of(file.path(), TraceSettings::Format::kMooncake);
  settings.arrivals.kind = ArrivalKind::kAtOnce;
  settings.classes.front().repeats = true;
  settings.max_conversations = 4;
  const auto ids = prefixes(all_of(settings, 1));
  REQUIRE(ids.size() == 8);
  CHECK(ids[0] == ids[2]);
  CHECK(ids[4] == ids[6]);
  CHECK(ids[0] != ids[4]);
}

TEST_CASE("workload: what a trace leaves out is in the warnings") {
  const TemporaryFile file(kAzureSample + "2023-11-16 18:00:11,1,0\n");
  const auto source = make_source(trace_of(file.path(), TraceSettings::Format::kAzure), 1);
  CHECK(all_of(*source).size() == 3);
  CHECK(source->warnings() ==
        std::vector<std::string>{file.path().string() + ": requests left out because they got no answer: 1"});
}

TEST_CASE("workload: every preset makes a plan of its name") {
  for (const auto& name : preset_names()) {
    auto settings = preset(name);
    CHECK(settings.name == name);
    settings.max_conversations = 10;
    CHECK(all_of(settings, 1).size() == 10);
  }
  CHECK(refusal_of([] { preset("chta"); }) ==
        "workload.preset: expected one of chat, questions, sharegpt-like, fixed-128-128, got 'chta'");
}

TEST_CASE("workload: the chat preset resembles Azure's conversation trace") {
  const auto file = troupe::find_test_data("traces/AzureLLMInferenceTrace_conv.csv");
  if (!file) return;
  const auto trace = all_of(trace_of(file->string(), TraceSettings::Format::kAzure), 1);
  auto settings = preset("chat");
  settings.max_conversations = trace.size();
  const auto plan = all_of(settings, 1);
  const auto mean_logarithm = [](const std::vector<std::uint64_t>& lengths) {
    double sum = 0;
    for (const auto length : lengths) sum += std::log(length);
    return sum / static_cast<double>(lengths.size());
  };
  CHECK(mean_logarithm(first_prompts(plan)) ==
        doctest::Approx(mean_logarithm(first_prompts(trace))).epsilon(0.01));
  CHECK(mean_logarithm(first_outputs(plan)) ==
        doctest::Approx(mean_logarithm(first_outputs(trace))).epsilon(0.01));
}

TEST_CASE("workload: a million conversations are planned without a word of text") {
  auto settings = preset("chat");
  settings.max_conversations = 1'000'000;
  const auto source = make_source(settings, 1);
  PlannedConversation conversation;
  std::uint64_t count = 0;
  std::uint64_t text_bytes = 0;
  while (source->next(conversation)) {
    ++count;
    text_bytes += conversation.turns.front().text.size();
  }
  CHECK(count == 1'000'000);
  CHECK(text_bytes == 0);
}

TEST_CASE("workload: settings that make no sense are refused with key, what was expected and what came") {
  const auto refusal = [](const std::function<void(WorkloadSettings&)>& change) {
    WorkloadSettings settings;
    change(settings);
    return refusal_of(settings);
  };
  using Settings = WorkloadSettings;
  CHECK(refusal([](Settings& s) { s.classes.clear(); }) == "class: expected at least one class, got none");
  CHECK(refusal([](Settings& s) { s.classes.resize(2); }) ==
        "class[1].name: expected a name of its own, got another 'default'");
  CHECK(refusal([](Settings& s) { s.classes[0].share = 0; }) ==
        "class[0].share: expected a number above 0, got 0");
  CHECK(refusal([](Settings& s) { s.duration_s = -1; }) ==
        "workload.duration_s: expected a number of at least 0, got -1");
  CHECK(refusal([](Settings& s) { s.max_conversations = 0; }) ==
        "workload: expected max_conversations or duration_s above 0, or a trace, got a plan without end");
  CHECK(contains(refusal([](Settings& s) {
                   s.max_conversations = 0;
                   s.duration_s = 5;  // in which all of them would begin at 0
                   s.arrivals.kind = ArrivalKind::kAtOnce;
                 }),
                 "got a plan without end"));
  CHECK(refusal([](Settings& s) { s.classes[0].prefix.count = 2; }) ==
        "class[0].prefix.tokens: expected a number of at least 1, got 0");
  CHECK(refusal([](Settings& s) { s.classes[0].prompt_tokens = fixed(-4); }) ==
        "class[0].prompt_tokens: expected a number of at least 0, got -4");
  CHECK(refusal([](Settings& s) { s.arrivals.kind = ArrivalKind::kReplay; }) ==
        "arrivals.kind: expected times_s with \"replay\", or one class with a trace, got neither");
  CHECK(refusal([](Settings& s) { s.classes[0].content = ClassSettings::Content::kTrace; }) ==
        "class[0].trace.file: expected the path of a trace, got none");
  CHECK(refusal([](Settings& s) { s.classes[0].content = ClassSettings::Content::kQuestions; }) ==
        "class[0].questions: expected the path of a file of questions, got none");
  CHECK(refusal([](Settings& s) { s = trace_of("/nonexistent/t.csv", TraceSettings::Format::kAzure); }) ==
        "/nonexistent/t.csv: cannot be opened");
  CHECK(refusal([](Settings& s) { s = trace_of("/tmp", TraceSettings::Format::kAzure); }) ==
        "/tmp: expected a file, got a directory");
  CHECK(refusal([](Settings& s) { s = trace_of("x", TraceSettings::Format::kShareGpt); }) ==
        "arrivals.kind: expected a trace with times for \"replay\", got one without, \"sharegpt\"");
  CHECK(refusal([](Settings& s) { s = trace_of("x", TraceSettings::Format::kAgents); }) ==
        "arrivals.kind: expected a trace with times for \"replay\", got one without, \"agents\"");
  CHECK(refusal([](Settings& s) {
          s = trace_of("x", TraceSettings::Format::kAzure);
          s.classes[0].trace.from_s = 5;
          s.classes[0].trace.until_s = 5;
        }) == "class[0].trace.until_s: expected more than from_s 5, got 5");
}
