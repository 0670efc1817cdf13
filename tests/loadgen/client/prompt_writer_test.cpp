// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/prompt_writer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using namespace troupe::loadgen;

namespace {

PlannedConversation conversation(std::uint64_t number, std::uint32_t prompt_tokens,
                                 std::vector<PrefixBlock> prefix = {}) {
  PlannedConversation planned;
  planned.number = number;
  planned.prefix = std::move(prefix);
  planned.turns.resize(2);
  for (auto& turn : planned.turns) turn.prompt_tokens = prompt_tokens;
  return planned;
}

long words_in(const std::string& text) {
  return text.empty() ? 0 : 1 + std::count(text.begin(), text.end(), ' ');
}

constexpr TokenRange kRange{.first = 16, .end = 1024};

}  // namespace

TEST_CASE("prompt writer: a prompt has as many words as tokens per word say") {
  const PromptWriter writer(1);
  CHECK(words_in(writer.text(conversation(0, 130), 0, 1.3)) == 100);
  CHECK(words_in(writer.text(conversation(0, 1), 0, 1.3)) == 1);
  CHECK(words_in(writer.text(conversation(0, 100), 0, 2.5)) == 40);
}

TEST_CASE("prompt writer: token prompts have exactly the planned length, prefix and all, within the range") {
  const PromptWriter writer(1);
  const auto ids = writer.token_ids(conversation(3, 100, {{.id = 7, .num_tokens = 33}}), 0, kRange);
  CHECK(ids.size() == 133);
  CHECK(*std::min_element(ids.begin(), ids.end()) >= kRange.first);
  CHECK(*std::max_element(ids.begin(), ids.end()) < kRange.end);
  CHECK(writer.token_ids(conversation(3, 100, {{.id = 7, .num_tokens = 33}}), 1, kRange).size() == 100);
}

TEST_CASE("prompt writer: the same seed writes the same, another one something else from the first word on") {
  const auto planned = conversation(5, 20);
  CHECK(PromptWriter(1).text(planned, 0, 1) == PromptWriter(1).text(planned, 0, 1));
  CHECK(PromptWriter(1).token_ids(planned, 0, kRange) == PromptWriter(1).token_ids(planned, 0, kRange));
  const auto one = PromptWriter(1).text(planned, 0, 1);
  const auto other = PromptWriter(2).text(planned, 0, 1);
  CHECK(one.substr(0, one.find(' ')) != other.substr(0, other.find(' ')));
  CHECK(PromptWriter(1).token_ids(planned, 0, kRange)[0] != PromptWriter(2).token_ids(planned, 0, kRange)[0]);
}

TEST_CASE("prompt writer: the turns of a conversation say different things") {
  const PromptWriter writer(1);
  CHECK(writer.text(conversation(0, 20), 0, 1) != writer.text(conversation(0, 20), 1, 1));
  CHECK(writer.token_ids(conversation(0, 20), 0, kRange) != writer.token_ids(conversation(0, 20), 1, kRange));
}

TEST_CASE("prompt writer: conversations differ from the first word and the first token on") {
  const PromptWriter writer(9);
  std::set<std::string> first_words;
  std::set<std::int32_t> first_tokens;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    const auto text = writer.text(conversation(number, 10), 0, 1.3);
    first_words.insert(text.substr(0, text.find(' ')));
    first_tokens.insert(writer.token_ids(conversation(number, 10), 0, kRange).front());
  }
  CHECK(first_words.size() == 1000);
  CHECK(first_tokens.size() == 1000);
}

TEST_CASE(
    "prompt writer: equal prefix blocks are equal in all conversations, and what follows differs at once") {
  const PromptWriter writer(1);
  const std::vector<PrefixBlock> prefix = {{.id = 1, .num_tokens = 40}, {.id = 2, .num_tokens = 24}};
  const auto a = writer.token_ids(conversation(10, 8, prefix), 0, kRange);
  const auto b = writer.token_ids(conversation(11, 8, prefix), 0, kRange);
  CHECK(std::equal(a.begin(), a.begin() + 64, b.begin()));
  CHECK(a[64] != b[64]);
  const auto text_a = writer.text(conversation(10, 8, prefix), 0, 1);
  const auto text_b = writer.text(conversation(11, 8, prefix), 0, 1);
  const auto differ = std::mismatch(text_a.begin(), text_a.end(), text_b.begin(), text_b.end());
  CHECK(words_in({text_a.begin(), differ.first}) == 65);  // 64 words, and the space before the next
}

TEST_CASE("prompt writer: a block that ends early is the beginning of the whole one") {
  const PromptWriter writer(1);
  const auto whole = writer.token_ids(conversation(0, 0, {{.id = 5, .num_tokens = 512}}), 0, kRange);
  const auto part = writer.token_ids(conversation(1, 0, {{.id = 5, .num_tokens = 100}}), 0, kRange);
  REQUIRE(whole.size() == 512);
  REQUIRE(part.size() == 100);
  CHECK(std::equal(part.begin(), part.end(), whole.begin()));
}

TEST_CASE("prompt writer: a turn with a text says that, after the prefix if there is one") {
  const PromptWriter writer(1);
  auto planned = conversation(0, 20);
  planned.turns[0].text = "Count from 3 to 7.";
  CHECK(writer.text(planned, 0, 1.3) == "Count from 3 to 7.");
  planned.prefix = {{.id = 1, .num_tokens = 4}};
  const auto text = writer.text(planned, 0, 1);
  CHECK(text.ends_with("\nCount from 3 to 7."));
  CHECK(words_in(text) == 4 + 4);
}

TEST_CASE("prompt writer: no prompt is empty") {
  const PromptWriter writer(1);
  CHECK_FALSE(writer.text(conversation(0, 0), 0, 1.3).empty());
  CHECK(writer.token_ids(conversation(0, 0), 0, kRange).size() == 1);
}

TEST_CASE("prompt writer: a tree in brackets has exactly the planned words, and is the conversation's own") {
  const PromptWriter writer(1);
  CHECK(writer.tree(conversation(0, 4), 0, TreeShape::kComplete).starts_with("(2 (2 (2 "));
  CHECK(writer.tree(conversation(0, 1), 0, TreeShape::kParsed).starts_with("(2 "));
  for (const std::uint32_t num_words : {1U, 2U, 9U, 300U}) {
    const std::string text = writer.tree(conversation(7, num_words), 0, TreeShape::kParsed);
    CHECK(std::count(text.begin(), text.end(), '(') == 2 * num_words - 1);
    CHECK(std::count(text.begin(), text.end(), ')') == 2 * num_words - 1);
    CHECK(text == writer.tree(conversation(7, num_words), 0, TreeShape::kParsed));
  }
  CHECK(writer.tree(conversation(7, 30), 0, TreeShape::kParsed) !=
        writer.tree(conversation(8, 30), 0, TreeShape::kParsed));
}
