// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/toml/workload_toml.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/loadgen/workload/planned_input.hpp"

using namespace troupe::loadgen;
using namespace troupe::loadgen::test;
using std::chrono::milliseconds;
using ArrivalKind = ArrivalSettings::Kind;
using DistributionKind = DistributionSettings::Kind;

namespace {

WorkloadSettings read(const std::string& text) {
  return read_workload(toml::parse(text, std::string("x.toml")), "/base");
}

ArrivalSettings arrivals(const std::string& text) { return read("[arrivals]\n" + text).arrivals; }

ClassSettings first_class(const std::string& text) { return read("[[class]]\n" + text).classes.at(0); }

std::string refusal(const std::string& text) {
  return refusal_of([&] { read(text); });
}

}  // namespace

TEST_CASE("workload TOML: an empty file is a thousand Poisson requests of 128 in, 128 out") {
  const auto settings = read("");
  CHECK(settings.max_conversations == 1000);
  CHECK(settings.arrivals.kind == ArrivalKind::kPoisson);
  REQUIRE(settings.classes.size() == 1);
  CHECK(settings.classes[0].prompt_tokens.mean == 128);
}

TEST_CASE("workload TOML: general settings, and tables of other programs beside them") {
  const auto settings =
      read("[server]\nanything = 1\n[workload]\nname = \"mine\"\nmax_conversations = 7\nduration_s = 2.5\n");
  CHECK(settings.name == "mine");
  CHECK(settings.max_conversations == 7);
  CHECK(settings.duration_s == 2.5);
}

TEST_CASE("workload TOML: without a number of conversations, whatever else ends the plan does") {
  CHECK(read("[workload]\nduration_s = 60\n").max_conversations == 0);
  CHECK(read("[arrivals]\nkind = \"steps\"\nrates = [1]\nstep_s = 5\n").max_conversations == 0);
  CHECK(read("[[class]]\ntrace = { format = \"azure\", file = \"t\" }\n").max_conversations == 0);
  CHECK(read("[[class]]\ntrace = { format = \"azure\", file = \"t\" }\nrepeats = true\n").max_conversations ==
        1000);
  CHECK(read("[workload]\nduration_s = 60\nmax_conversations = 5\n").max_conversations == 5);
}

TEST_CASE("workload TOML: every kind of arrivals can be said") {
  CHECK(arrivals("kind = \"at-once\"").kind == ArrivalKind::kAtOnce);
  CHECK(arrivals("kind = \"constant\"\nrate = 3").rate == 3);
  CHECK(arrivals("rate = 0.5").kind == ArrivalKind::kPoisson);
  const auto gamma = arrivals("kind = \"gamma\"\nrate = 2\nburstiness = 0.25");
  CHECK(gamma.kind == ArrivalKind::kGamma);
  CHECK(gamma.burstiness == 0.25);
  const auto markov = arrivals(
      "kind = \"markov\"\nstates = [{ rate = 1, mean_dwell_s = 9 }, { rate = 11, mean_dwell_s = 1 }]");
  CHECK(mean_rate(markov) == doctest::Approx(2));
  const auto replay = arrivals("kind = \"replay\"\nspeed = 2\ntimes_s = [0, 1.5]");
  CHECK(replay.speed == 2);
  CHECK(replay.times_s == std::vector<double>{0, 1.5});
  const auto closed =
      arrivals("kind = \"closed\"\nusers = 16\npause_s = { kind = \"exponential\", mean = 3 }");
  CHECK(closed.users == 16);
  CHECK(closed.pause_s.kind == DistributionKind::kExponential);
}

TEST_CASE("workload TOML: profiles, steps, ramps and spikes become segments") {
  const auto profile = arrivals(
      "kind = \"profile\"\ngaps = \"constant\"\n"
      "segments = [{ duration_s = 5, rate = 2 }, { duration_s = 6, begin_rate = 2, end_rate = 8 }]");
  CHECK(profile.has_constant_gaps);
  REQUIRE(profile.segments.size() == 2);
  CHECK(profile.segments[0].end_rate == 2);
  CHECK(profile.segments[1].end_rate == 8);
  const auto steps = arrivals("kind = \"steps\"\nrates = [1, 2, 4]\nstep_s = 10");
  REQUIRE(steps.segments.size() == 3);
  CHECK(steps.segments[2].begin_rate == 4);
  CHECK(steps.segments[2].duration_s == 10);
  const auto ramp = arrivals("kind = \"ramp\"\nbegin_rate = 1\nend_rate = 9\nduration_s = 60");
  CHECK(mean_rate(ramp) == doctest::Approx(5));
  const auto spike =
      arrivals("kind = \"spike\"\nrate = 1\npeak_rate = 20\nbefore_s = 30\npeak_s = 5\nafter_s = 40");
  REQUIRE(spike.segments.size() == 3);
  CHECK(spike.segments[1].end_rate == 20);
  CHECK(spike.segments[2].duration_s == 40);
  CHECK(spike.segments[2].begin_rate == 1);
}

TEST_CASE("workload TOML: every distribution can be said") {
  CHECK(first_class("prompt_tokens = 99").prompt_tokens.mean == 99);
  CHECK(first_class("prompt_tokens = { value = 98 }").prompt_tokens.mean == 98);
  const auto uniform = first_class("turns = { kind = \"uniform\", min = 1, max = 6 }").num_turns;
  CHECK(uniform.kind == DistributionKind::kUniform);
  CHECK(uniform.max == 6);
  const auto normal =
      first_class("output_tokens = { kind = \"normal\", mean = 100, stddev = 20, min = 1 }").output_tokens;
  CHECK(normal.kind == DistributionKind::kNormal);
  CHECK(normal.stddev == 20);
  const auto log_normal =
      first_class("prompt_tokens = { kind = \"lognormal\", median = 760, sigma = 1, max = 2000 }")
          .prompt_tokens;
  CHECK(log_normal.median == 760);
  CHECK(log_normal.max == 2000);
  const auto grid =
      first_class("prompt_tokens = { kind = \"quantiles\", file = \"q.json\", key = \"a.b\" }").prompt_tokens;
  CHECK(grid.file == "/base/q.json");
  CHECK(grid.key == "a.b");
  CHECK(first_class("prompt_tokens = { kind = \"quantiles\", values = [1, 5, 9] }")
            .prompt_tokens.quantiles.size() == 3);
}

TEST_CASE("workload TOML: classes have names, shares, objectives, prefixes and contents") {
  const auto settings = read(R"(
[[class]]
name = "chat"
share = 3
ttft_ms = 200
tpot_ms = 50.5
e2e_ms = 9000
ignore_eos = true
max_tokens = 64
think_time_s = 2
prefix = { count = 8, tokens = 256, zipf_exponent = 1.1 }
[[class]]
name = "check"
questions = "q.json"
categories = ["weekdays"]
[[class]]
name = "trace"
repeats = true
[class.trace]
format = "mooncake"
file = "t.jsonl"
from_s = 60
until_s = 120
max_conversations = 5
length_factor = 0.5
max_context_tokens = 2048
)");
  REQUIRE(settings.classes.size() == 3);
  const auto& chat = settings.classes[0];
  CHECK(chat.share == 3);
  CHECK(chat.request_class.objectives.time_to_first_token == milliseconds(200));
  CHECK(chat.request_class.objectives.time_per_output_token == std::chrono::microseconds(50'500));
  CHECK(chat.request_class.objectives.end_to_end == milliseconds(9000));
  CHECK(chat.request_class.ignore_eos);
  CHECK(chat.request_class.max_tokens == 64);
  CHECK(chat.prefix.zipf_exponent == 1.1);
  CHECK(settings.classes[1].questions_file == "/base/q.json");
  CHECK(settings.classes[1].categories == std::vector<std::string>{"weekdays"});
  const auto& trace = settings.classes[2].trace;
  CHECK(trace.format == TraceSettings::Format::kMooncake);
  CHECK(trace.file == "/base/t.jsonl");
  CHECK(trace.until_s == 120);
  CHECK(trace.max_context_tokens == 2048);
  CHECK(settings.classes[2].repeats);
  CHECK(request_classes(settings).at(1).name == "check");
}

TEST_CASE("workload TOML: shares of turns whose clients hang up or stop reading") {
  const auto settings = first_class(
      "cancelled = { share = 0.25, after_s = { kind = \"exponential\", mean = 2 } }\n"
      "stalled = { share = 1, after_s = 3 }\n");
  CHECK(settings.cancelled.share == 0.25);
  CHECK(settings.cancelled.after_s.kind == DistributionKind::kExponential);
  CHECK(settings.stalled.after_s.mean == 3);
  CHECK(refusal("[[class]]\ncancelled = 1\n") ==
        "x.toml:2: class[0].cancelled: expected a table with share and after_s, got 1");
  CHECK(refusal("[[class]]\nstalled = { share = 2, after_s = 1 }\n") ==
        "x.toml:2: class[0].stalled.share: expected a share from 0 to 1, got 2");

  WorkloadSettings workload;
  workload.classes = {settings};
  int num_cancelled = 0;
  for (const auto& conversation : all_of(workload, 5)) {
    num_cancelled += conversation.turns[0].cancelled_after ? 1 : 0;
    CHECK(conversation.turns[0].stops_reading_after == std::chrono::seconds(3));
  }
  CHECK(num_cancelled > 200);
  CHECK(num_cancelled < 300);
}

TEST_CASE("workload TOML: a class changes what the preset says, and keeps the rest") {
  const auto settings = read("[workload]\npreset = \"chat\"\n[[class]]\nttft_ms = 300\noutput_tokens = 16\n");
  CHECK(settings.name == "chat");
  REQUIRE(settings.classes.size() == 1);
  CHECK(settings.classes[0].prompt_tokens.median == 760);
  CHECK(settings.classes[0].output_tokens.mean == 16);
  CHECK(settings.classes[0].request_class.objectives.time_to_first_token == milliseconds(300));
}

TEST_CASE("workload TOML: a class of questions may choose categories of the preset's") {
  const auto settings = read("[workload]\npreset = \"questions\"\n[[class]]\ncategories = [\"months\"]\n");
  CHECK(settings.classes[0].questions_file == TROUPE_SOURCE_DIR "/models/demo/held_out_questions.json");
  CHECK(settings.classes[0].categories == std::vector<std::string>{"months"});
}

TEST_CASE("workload TOML: an unknown key is refused with file, line and the nearest known key") {
  CHECK(refusal("[arrivals]\nkind = \"poisson\"\nrat = 4\n") ==
        "x.toml:3: unknown key 'arrivals.rat'; did you mean 'rate'?");
  CHECK(refusal("[workload]\nmax_conversation = 4\n") ==
        "x.toml:2: unknown key 'workload.max_conversation'; did you mean 'max_conversations'?");
  CHECK(refusal("[[class]]\n[[class]]\nprompt_token = 4\n") ==
        "x.toml:3: unknown key 'class[1].prompt_token'; did you mean 'prompt_tokens'?");
  CHECK(contains(refusal("[[class]]\nprompt_tokens = { kind = \"normal\", stdev = 4 }\n"),
                 "did you mean 'stddev'?"));
  CHECK(contains(refusal("[[class]]\nprefix = { count = 4, token = 4 }\n"),
                 "'class[0].prefix.token'; did you mean 'tokens'?"));
  // Known, but of another kind: it would have no effect.
  CHECK(contains(refusal("[arrivals]\nkind = \"poisson\"\nburstiness = 4\n"),
                 "x.toml:3: unknown key 'arrivals.burstiness'"));
  CHECK(contains(refusal("[[class]]\nquestions = \"q.json\"\nprompt_tokens = 4\n"),
                 "unknown key 'class[0].prompt_tokens'"));
}

TEST_CASE("workload TOML: a wrong type is refused with file, line, key, what was expected and what came") {
  CHECK(refusal("[arrivals]\nrate = \"fast\"\n") ==
        "x.toml:2: arrivals.rate: expected a number, got \"fast\"");
  CHECK(
      refusal("[workload]\nmax_conversations = -3\n") ==
      "x.toml:2: workload.max_conversations: expected a whole number from 0 to 18446744073709551615, got -3");
  CHECK(refusal("[workload]\nmax_conversations = 2.5\n") ==
        "x.toml:2: workload.max_conversations: expected a whole number from 0 to 18446744073709551615, got "
        "2.5");
  CHECK(refusal("[[class]]\nignore_eos = 1\n") ==
        "x.toml:2: class[0].ignore_eos: expected true or false, got 1");
  CHECK(refusal("[[class]]\nname = 1\n") == "x.toml:2: class[0].name: expected a text, got 1");
  CHECK(refusal("[[class]]\nmax_tokens = 5000000000\n") ==
        "x.toml:2: class[0].max_tokens: expected a whole number from 0 to 4294967295, got 5000000000");
  CHECK(refusal("[[class]]\nprompt_tokens = [1]\n") ==
        "x.toml:2: class[0].prompt_tokens: expected a number or a table with a kind, got a list");
  CHECK(refusal("[[class]]\nttft_ms = -1\n") ==
        "x.toml:2: class[0].ttft_ms: expected milliseconds of at least 0, got -1");
  CHECK(refusal("[arrivals]\nkind = \"poison\"\n")
            .starts_with("x.toml:2: arrivals.kind: expected one of at-once, constant"));
  CHECK(refusal("[arrivals]\nkind = \"markov\"\nstates = 3\n") ==
        "x.toml:3: arrivals.states: expected a list of tables, got 3");
  CHECK(refusal("[arrivals]\nkind = \"steps\"\nrates = [1, true]\n") ==
        "x.toml:3: arrivals.rates: expected a list of numbers, got true");
  CHECK(refusal("arrivals = 3\n") == "x.toml:1: arrivals: expected a table [arrivals]");
  CHECK(refusal("class = 3\n") == "x.toml:1: class: expected a list of tables, got 3");
  CHECK(contains(refusal("[workload]\npreset = \"chta\"\n"),
                 "x.toml:2: workload.preset: expected one of chat"));
  CHECK(contains(refusal("[[class]]\nquestions = \"q\"\ntrace = {}\n"),
                 "expected either questions or a trace"));
  CHECK(refusal("[[class]]\ntrace = { file = \"t\" }\n") ==
        "x.toml:2: class[0].trace: expected a format, got none");
}

TEST_CASE("workload TOML: a value out of range is refused with line, key, what was expected and what came") {
  CHECK(refusal("[arrivals]\nrate = -3\n") == "x.toml:2: arrivals.rate: expected a number above 0, got -3");
  CHECK(refusal("[[class]]\nname = \"a\"\n[[class]]\nturns = -1\n") ==
        "x.toml:4: class[1].turns: expected a number of at least 0, got -1");
  CHECK(refusal("[arrivals]\nkind = \"markov\"\nstates = [\n{ rate = 1, mean_dwell_s = 1 },\n"
                "{ rate = 1, mean_dwell_s = 0 }]\n") ==
        "x.toml:5: arrivals.states[1].mean_dwell_s: expected a number above 0, got 0");
  // What is missing is told by its table, or the file.
  CHECK(refusal("\n[[class]]\nprefix = { count = 3 }\n") ==
        "x.toml:3: class[0].prefix.tokens: expected a number of at least 1, got 0");
  CHECK(refusal("[arrivals]\nkind = \"spike\"\n") ==
        "x.toml:1: arrivals.segments[0].duration_s: expected a number above 0, got 0");
  CHECK(refusal("[[class]]\nprompt_tokens = { kind = \"uniform\", min = 5, max = 4 }\n") ==
        "x.toml:2: class[0].prompt_tokens.max: expected at least the minimum 5, got 4");
}

TEST_CASE("workload TOML: the examples of docs/workloads.md are read") {
  std::ifstream file(TROUPE_SOURCE_DIR "/docs/workloads.md");
  std::string text;
  std::string line;
  int num_examples = 0;
  bool is_inside = false;
  while (std::getline(file, line)) {
    if (line == "```toml") {
      is_inside = true;
      text.clear();
    } else if (line == "```" && is_inside) {
      is_inside = false;
      ++num_examples;
      CHECK_MESSAGE(refusal(text) == "", text);
    } else if (is_inside) {
      text += line + "\n";
    }
  }
  CHECK(num_examples == 3);
}

TEST_CASE("workload TOML: those that come with troupe draw from the tables beside them") {
  const auto folder = std::filesystem::path(TROUPE_SOURCE_DIR) / "configs" / "workloads";
  std::map<std::string, std::vector<double>> prompts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path().string());
    auto settings = read_workload(toml::parse_file(entry.path().string()), folder);
    CHECK(settings.name == entry.path().stem().string());
    settings.max_conversations = 500;
    for (const auto& conversation : all_of(settings, 1))
      for (const auto& turn : conversation.turns) prompts[settings.name].push_back(turn.prompt_tokens);
  }
  REQUIRE(prompts.size() == 3);
  for (auto& [name, tokens] : prompts) std::sort(tokens.begin(), tokens.end());
  const auto& azure = prompts.at("azure-conversation");
  CHECK(azure[azure.size() / 2] == doctest::Approx(1020).epsilon(0.1));  // the table's middle
}

TEST_CASE(
    "workload TOML: an agent's first prompt has a length of its own, and what is added one of another") {
  const auto settings = first_class(
      "first_prompt_tokens = { kind = \"uniform\", min = 1000, max = 1100 }\nprompt_tokens = 20\nturns = "
      "4\n");
  WorkloadSettings workload;
  workload.classes = {settings};
  workload.max_conversations = 20;
  for (const auto& conversation : all_of(workload, 1)) {
    REQUIRE(conversation.turns.size() == 4);
    CHECK(conversation.turns[0].prompt_tokens >= 1000);
    CHECK(conversation.turns[0].prompt_tokens <= 1100);
    for (std::size_t i = 1; i < 4; ++i) CHECK(conversation.turns[i].prompt_tokens == 20);
  }
}

TEST_CASE("workload TOML: recorded agents grow to tens of thousands of tokens") {
  const auto folder = std::filesystem::path(TROUPE_SOURCE_DIR) / "configs" / "workloads";
  auto settings = read_workload(toml::parse_file((folder / "agents.toml").string()), folder);
  settings.max_conversations = 200;
  std::uint32_t longest = 0;
  for (const auto& conversation : all_of(settings, 1)) {
    CHECK(conversation.turns[0].prompt_tokens >= 1458);
    CHECK(conversation.turns.size() >= 5);
    CHECK(conversation.turns.size() <= 40);
    std::uint32_t tokens = 0;
    for (const auto& turn : conversation.turns) tokens += turn.prompt_tokens + turn.output_tokens;
    longest = std::max(longest, tokens);
  }
  CHECK(longest > 20'000);
}

TEST_CASE("workload TOML: answers in proportion to their prompts, and prompts that are trees") {
  const auto settings = first_class(
      "prompt_tokens = { kind = \"uniform\", min = 1, max = 90 }\noutput_ratio = 2.5\ntrees = \"parsed\"\n");
  REQUIRE(settings.output_ratio);
  CHECK(settings.output_ratio->mean == 2.5);
  CHECK(settings.request_class.trees == TreeShape::kParsed);
  WorkloadSettings workload;
  workload.classes = {settings};
  const auto source = make_source(workload, 3);
  PlannedConversation planned;
  for (int i = 0; i < 50 && source->next(planned); ++i)
    CHECK(planned.turns[0].output_tokens ==
          static_cast<std::uint32_t>(std::round(planned.turns[0].prompt_tokens * 2.5)));
  CHECK(refusal("[[class]]\noutput_tokens = 3\noutput_ratio = 2\n")
            .find("either output_tokens or output_ratio") != std::string::npos);
  CHECK(refusal("[[class]]\ntrees = \"flat\"\n").find("trees") != std::string::npos);
}
