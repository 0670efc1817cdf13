// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/dialogue.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace troupe::loadgen {
namespace {

PlannedConversation two_turns() {
  PlannedConversation plan;
  plan.system_text = "Be short.";
  plan.turns.resize(2);
  return plan;
}

const TurnPrompts kPrompts = {
    .words = [](const PlannedConversation&, std::size_t turn) { return "turn " + std::to_string(turn); },
    .ids = {}};

nlohmann::json next(Dialogue& dialogue, Endpoint endpoint) {
  return nlohmann::json::parse(
      dialogue.next_body(endpoint, {.model = "m", .max_tokens = 7}, {.max_tokens = 7}, kPrompts));
}

TEST_CASE("dialogue: a response's later turn sends its own text and names the one before") {
  Dialogue dialogue(two_turns());
  const auto first = next(dialogue, Endpoint::kResponses);
  CHECK(first["input"] == "turn 0");
  CHECK(first["instructions"] == "Be short.");
  CHECK(first["max_output_tokens"] == 7);
  CHECK_FALSE(first.contains("max_tokens"));
  CHECK_FALSE(first.contains("previous_response_id"));
  dialogue.add_answer("yes", "resp_1");
  const auto second = next(dialogue, Endpoint::kResponses);
  CHECK(second["input"] == "turn 1");
  CHECK(second["previous_response_id"] == "resp_1");
  CHECK_FALSE(second.contains("instructions"));
}

TEST_CASE("dialogue: a chat's later turn sends all that was said") {
  Dialogue dialogue(two_turns());
  next(dialogue, Endpoint::kChat);
  dialogue.add_answer("yes");
  const auto second = next(dialogue, Endpoint::kChat);
  REQUIRE(second["messages"].size() == 4);
  CHECK(second["messages"][2]["content"] == "yes");
}

TEST_CASE("dialogue: lengths that are known are told where they are wanted") {
  const auto told = [](bool tells_lengths, bool ignore_eos, std::uint32_t output, std::uint32_t answer) {
    PlannedConversation plan;
    plan.turns.push_back({.output_tokens = output, .answer_tokens = answer});
    const auto body = nlohmann::json::parse(
        Dialogue(std::move(plan))
            .next_body(Endpoint::kChat, {.model = "m"}, {.ignore_eos = ignore_eos}, kPrompts, tells_lengths));
    return body.value("troupe_answer_tokens", 0);
  };
  CHECK(told(true, true, 30, 0) == 30);   // exactly so many are drawn
  CHECK(told(true, false, 30, 0) == 0);   // it may end sooner
  CHECK(told(true, false, 0, 12) == 12);  // the right answer has so many
  CHECK(told(false, true, 30, 12) == 0);
}

TEST_CASE("dialogue: an embedding has nothing but its input") {
  Dialogue dialogue(two_turns());
  const auto body = next(dialogue, Endpoint::kEmbeddings);
  CHECK(body["input"] == "turn 0");
  CHECK_FALSE(body.contains("stream"));
  CHECK_FALSE(body.contains("max_tokens"));
}

}  // namespace
}  // namespace troupe::loadgen
