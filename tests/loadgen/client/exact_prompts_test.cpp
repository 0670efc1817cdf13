// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/exact_prompts.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace troupe;
using namespace troupe::loadgen;

namespace exact_prompts_test {
namespace {

std::shared_ptr<const Tokenizer> demo_tokenizer() {
  static const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(TROUPE_SOURCE_DIR "/models/demo");
  return tokenizer;
}

PlannedConversation conversation(std::uint64_t number, std::uint32_t prompt_tokens,
                                 std::vector<PrefixBlock> prefix = {}) {
  PlannedConversation planned;
  planned.number = number;
  planned.prefix = std::move(prefix);
  planned.turns.resize(2);
  for (auto& turn : planned.turns) turn.prompt_tokens = prompt_tokens;
  return planned;
}

std::size_t tokens_of(const std::string& text) { return demo_tokenizer()->encode(text).size(); }

}  // namespace

TEST_CASE("exact prompts: as many tokens as planned, whatever the length") {
  const ExactPrompts prompts(PromptWriter(1), demo_tokenizer());
  for (std::uint32_t length = 1; length <= 300; length += length < 40 ? 1 : 37) {
    CAPTURE(length);
    for (std::uint64_t number = 0; number < 5; ++number) {
      CHECK(tokens_of(prompts.text(conversation(number, length), 0)) == length);
      CHECK(tokens_of(prompts.text(conversation(number, length), 1)) == length);
    }
  }
}

TEST_CASE("exact prompts: shared prefixes are equal and as long as planned, what follows differs") {
  const ExactPrompts prompts(PromptWriter(1), demo_tokenizer());
  const std::vector<PrefixBlock> prefix = {{.id = 7, .num_tokens = 64}, {.id = 9, .num_tokens = 33}};
  const auto alone = prompts.text(conversation(0, 0, prefix), 0);
  CHECK(tokens_of(alone) == 97);
  std::set<std::string> texts;
  for (std::uint64_t number = 0; number < 10; ++number) {
    const auto text = prompts.text(conversation(number, 50, prefix), 0);
    CHECK(text.starts_with(alone + " "));
    CHECK(tokens_of(text) == 147);
    texts.insert(text);
  }
  CHECK(texts.size() == 10);
}

TEST_CASE("exact prompts: a turn's own text is said as it is") {
  const ExactPrompts prompts(PromptWriter(1), demo_tokenizer());
  auto planned = conversation(0, 50);
  planned.turns[0].text = "Count from 3 to 7.";
  CHECK(prompts.text(planned, 0) == "Count from 3 to 7.");
}

}  // namespace exact_prompts_test
