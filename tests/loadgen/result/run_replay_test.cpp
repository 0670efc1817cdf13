// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/run_replay.hpp"

#include <doctest/doctest.h>

#include "loadgen/simulator/simulator.hpp"
#include "tests/loadgen/simulator/simulated_traffic.hpp"

using namespace troupe;
using namespace troupe::loadgen;
using namespace std::chrono_literals;

namespace {

RequestRecord record_of(std::uint64_t conversation, std::uint32_t turn, std::chrono::nanoseconds intended,
                        std::uint32_t prompt_tokens, std::uint32_t output_tokens) {
  RequestRecord record;
  record.conversation = conversation;
  record.turn = turn;
  record.intended = intended;
  record.finished = intended + 10ms;
  record.prompt_tokens = prompt_tokens;
  record.output_tokens = output_tokens;
  record.outcome = Outcome::kCompleted;
  return record;
}

}  // namespace

TEST_CASE("run replay: conversations come back in order of start, with lengths and think times") {
  RunResult run;
  run.records = {record_of(7, 0, 50ms, 30, 5), record_of(2, 0, 20ms, 10, 4), record_of(2, 1, 100ms, 26, 3)};
  run.records[2].cached_tokens = 8;
  const auto conversations = conversations_of(run);
  REQUIRE(conversations.size() == 2);
  CHECK(conversations[0].number == 2);
  CHECK(conversations[0].start == 20ms);
  REQUIRE(conversations[0].turns.size() == 2);
  CHECK(conversations[0].turns[0].prompt_tokens == 10);
  CHECK(conversations[0].turns[1].kept_history == 8U);
  CHECK(conversations[0].turns[1].prompt_tokens == 18);
  CHECK(conversations[0].turns[1].think_time == 70ms);
  CHECK(conversations[1].number == 7);
}

TEST_CASE("run replay: a simulated run simulated again is the same") {
  std::vector<PlannedConversation> conversations;
  for (int i = 0; i < 40; ++i) {
    conversations.push_back(lone_request(i * 3ms, 10 + i, 5 + i % 7));
    conversations.back().turns.push_back(conversations.back().turns[0]);
    conversations.back().turns[1].think_time = 15ms;
  }
  ListedConversations source(conversations);
  const auto first = simulate(plain_profile(), source, {RequestClass{}}, {});
  ConversationList again(conversations_of(first.result));
  const auto second = simulate(plain_profile(), again, {RequestClass{}}, {});
  REQUIRE(first.result.records.size() == second.result.records.size());
  for (std::size_t i = 0; i < first.result.records.size(); ++i) {
    CHECK(first.result.records[i].first_token == second.result.records[i].first_token);
    CHECK(first.result.records[i].finished == second.result.records[i].finished);
  }
}

TEST_CASE("run replay: a turn that finds less of its history cached computes the rest") {
  CostProfile profile = plain_profile();
  profile.serving.settings.cache_policy = EvictionPolicy::kValue;
  RunResult run;
  run.records = {record_of(0, 0, 0ms, 40, 24), record_of(0, 1, 200ms, 50, 3)};
  run.records[1].cached_tokens = 32;  // of the 64 tokens before, the last were others
  ConversationList source(conversations_of(run));
  const auto records = simulate(profile, source, {RequestClass{}}, {}).result.records;
  REQUIRE(records.size() == 2);
  CHECK(records[1].prompt_tokens == 50);
  CHECK(records[1].cached_tokens == 32);
}

TEST_CASE("run replay: what first turns found cached, conversations share") {
  CostProfile profile = plain_profile();
  profile.serving.settings.cache_policy = EvictionPolicy::kValue;
  RunResult run;
  for (std::uint64_t i = 0; i < 6; ++i) run.records.push_back(record_of(i, 0, i * 200ms, 60 + i, 3));
  for (RequestRecord& record : run.records) record.cached_tokens = 24;
  run.records[4].cached_tokens = 500;  // more than there is
  run.records.push_back(record_of(5, 1, 2s, 80, 3));
  run.records.back().cached_tokens = 67;
  const auto conversations = conversations_of(run);
  CHECK(conversations[1].turns[0].prompt_tokens == 61 - 24);
  CHECK(conversations[4].turns[0].prompt_tokens == 1);
  ConversationList source(conversations);
  const auto records = simulate(profile, source, {RequestClass{}}, {}).result.records;
  REQUIRE(records.size() == 7);
  for (std::size_t i = 0; i < 7; ++i) CHECK(records[i].prompt_tokens == run.records[i].prompt_tokens);
  CHECK(records[0].cached_tokens == 0);
  for (const std::size_t i : {1, 2, 3, 4, 5}) CHECK(records[i].cached_tokens == 24);
  CHECK(records[6].cached_tokens == 67);
}

TEST_CASE("run replay: first turns that found heads of other lengths or classes share the least one only") {
  RunResult run;
  run.classes.resize(2);
  const std::vector<std::uint32_t> heads = {2024, 24, 2024, 1816, 0, 2024};
  for (std::uint64_t i = 0; i < heads.size(); ++i) {
    run.records.push_back(record_of(i, 0, i * 200ms, 3000, 3));
    run.records.back().cached_tokens = heads[i];
  }
  run.records.back().request_class = 1;
  const auto conversations = conversations_of(run);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    CAPTURE(i);
    const auto& prefix = conversations[i].prefix;
    REQUIRE(prefix.size() == (heads[i] == 0 ? 0 : heads[i] == 24 ? 1 : 2));
    CHECK(conversations[i].turns[0].prompt_tokens == 3000 - heads[i]);
    if (prefix.empty()) continue;
    CHECK(prefix[0].id == 0);
    CHECK(prefix[0].num_tokens == 24);
  }
  const auto text = [&](std::size_t i) { return conversations[i].prefix.at(1).id; };
  CHECK(text(0) == text(2));
  CHECK(text(0) != text(3));
  CHECK(text(0) != text(5));
  CHECK(text(0) != 0);
  CHECK(conversations[0].prefix[1].num_tokens == 2000);
}

TEST_CASE("run replay: the conversation that put a text into the cache has it as those that found it there") {
  CostProfile profile = plain_profile();
  profile.serving.settings.cache_policy = EvictionPolicy::kValue;
  RunResult run;
  run.classes.resize(2);
  for (std::uint64_t i = 0; i < 6; ++i) run.records.push_back(record_of(i, 0, i * 200ms, 60 + i, 3));
  run.records[1].prompt_tokens = 24;  // too short to have it all
  run.records[2].request_class = 1;
  for (const std::size_t i : {3, 4, 5}) run.records[i].cached_tokens = 24;
  const auto conversations = conversations_of(run);
  CHECK(conversations[0].turns[0].prompt_tokens == 60 - 24);
  for (const std::size_t i : {1, 2}) CHECK(conversations[i].prefix.empty());
  ConversationList source(conversations);
  const auto records = simulate(profile, source, run.classes, {}).result.records;
  REQUIRE(records.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    CHECK(records[i].prompt_tokens == run.records[i].prompt_tokens);
    CHECK(records[i].cached_tokens == run.records[i].cached_tokens);
  }
}

TEST_CASE("run replay: what was not completed is tried for a token") {
  RunResult run;
  run.records = {record_of(0, 0, 5ms, 8, 0)};
  run.records[0].outcome = Outcome::kRefused;
  CHECK(conversations_of(run).at(0).turns.at(0).output_tokens == 1);
}

TEST_CASE("run replay: a client hangs up after the same time, in an answer longer than it saw") {
  RunResult run;
  run.classes.resize(1);
  run.classes[0].max_tokens = 20;
  run.records = {record_of(0, 0, 5ms, 8, 300), record_of(1, 0, 6ms, 8, 3)};
  for (auto& record : run.records) record.outcome = Outcome::kCancelled;
  const auto conversations = conversations_of(run);
  CHECK(conversations.at(0).turns.at(0).cancelled_after == 10ms);
  CHECK(conversations.at(0).turns.at(0).output_tokens == 301);
  CHECK(conversations.at(1).turns.at(0).output_tokens == 20);
}

TEST_CASE("run replay: a client that stopped reading did not hang up") {
  RunResult run;
  run.records = {record_of(0, 0, 5ms, 8, 3)};
  run.records[0].outcome = Outcome::kCancelled;
  run.records[0].error = kStoppedReading;
  run.records[0].last_token = 9ms;
  const auto turn = conversations_of(run).at(0).turns.at(0);
  CHECK_FALSE(turn.cancelled_after);
  CHECK(turn.stops_reading_after == 4ms);
}

TEST_CASE("run replay: an empty run is no conversation") { CHECK(conversations_of({}).empty()); }
