// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/length_scaling.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace troupe::loadgen;

namespace {

PlannedConversation conversation(std::vector<PrefixBlock> prefix, std::vector<PlannedTurn> turns) {
  PlannedConversation planned;
  planned.prefix = std::move(prefix);
  planned.turns = std::move(turns);
  return planned;
}

PlannedTurn turn(std::uint32_t prompt_tokens, std::uint32_t output_tokens, std::string text = "") {
  PlannedTurn planned;
  planned.prompt_tokens = prompt_tokens;
  planned.output_tokens = output_tokens;
  planned.text = std::move(text);
  return planned;
}

}  // namespace

TEST_CASE("length scaling: lengths are rounded, something stays something, and texts go") {
  auto scaled = conversation({{.id = 1, .num_tokens = 10}}, {turn(3, 0, "three words here"), turn(1, 9)});
  scale_lengths(scaled, 0.25);
  CHECK(scaled.prefix.at(0).num_tokens == 3);
  CHECK(scaled.turns.at(0).prompt_tokens == 1);
  CHECK(scaled.turns.at(0).output_tokens == 0);
  CHECK(scaled.turns.at(0).text.empty());
  CHECK(scaled.turns.at(1).prompt_tokens == 1);
  CHECK(scaled.turns.at(1).output_tokens == 2);
}

TEST_CASE("length scaling: shrinking keeps proportions, at least a token each, and what fits already") {
  auto fits = conversation({}, {turn(50, 50)});
  CHECK(shrink_to_fit(fits, 100));
  CHECK(fits.turns[0].prompt_tokens == 50);
  auto two_turns = conversation({{1, 100}}, {turn(60, 40), turn(150, 50)});
  CHECK(shrink_to_fit(two_turns, 200));
  CHECK(two_turns.prefix.at(0).num_tokens == 50);
  CHECK(two_turns.turns.at(0).prompt_tokens == 30);
  CHECK(two_turns.turns.at(1).output_tokens == 25);
  auto lopsided = conversation({}, {turn(1, 1), turn(1, 100'000)});
  CHECK(shrink_to_fit(lopsided, 10));
  CHECK(lopsided.turns.at(0).prompt_tokens == 1);
  auto many = conversation({}, std::vector<PlannedTurn>(50, turn(10, 10)));
  CHECK(shrink_to_fit(many, 10));
  CHECK(many.turns.size() == 5);
}

TEST_CASE(
    "length scaling: a conversation with texts loses its last turns, and is left out if the first is too "
    "long") {
  auto texts = conversation({}, {turn(30, 30, "a"), turn(30, 30, "b"), turn(30, 30, "c")});
  CHECK(shrink_to_fit(texts, 130));
  REQUIRE(texts.turns.size() == 2);
  CHECK(texts.turns[1].text == "b");
  CHECK(texts.turns[1].prompt_tokens == 30);
  CHECK_FALSE(shrink_to_fit(texts, 59));
}
