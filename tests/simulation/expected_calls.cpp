// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/expected_calls.hpp"

#include <stdexcept>
#include <utility>

#include "tests/actors/byte_tokenizer.hpp"
#include "text/answer/call_grammar.hpp"

namespace troupe::sim {
namespace {

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
    R"("properties":{"a":{"enum":["xy","zw",7]}},"required":["a"],"additionalProperties":false}}}])";

AnswerReading sim_reading() {
  return {.format = sim_chat_template()->answer_format(), .reads_calls = true, .tools = kTools};
}

GrammarMatcher first_place() {
  const ByteTokenizer tokenizer;
  std::vector<std::string> bytes;
  for (std::size_t id = 0; id < tokenizer.vocabulary_size(); ++id)
    bytes.emplace_back(tokenizer.token_bytes(static_cast<TokenId>(id)));
  const std::vector<TokenId> ends{ByteTokenizer::kEos};
  return {std::make_shared<const Grammar>(grammar_of_calls(sim_reading(), {.may_be_text = true}, tokenizer)),
          std::make_shared<const GrammarVocabulary>(bytes, ends)};
}

}  // namespace

std::shared_ptr<const ChatTemplate> sim_chat_template() {
  static const auto chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(
      "{% for m in messages %}{{ m.content }}"
      "{% for c in m.tool_calls or [] %}q{{ c.function | tojson }}{% endfor %}{% endfor %}"));
  return chat_template;
}

ChatPrompt sim_tools_prompt(std::string text) {
  return {.messages = {{"user", std::move(text)}}, .tools = kTools, .splits_answer = true};
}

void add_calls(std::string& calls, const std::vector<CallDelta>& more) {
  for (const CallDelta& call : more) calls += call.name + call.arguments;
}

SplitAnswer split_answer(const std::string& answer, bool is_cut) {
  AnswerParser parser(sim_reading());
  SplitAnswer split;
  for (const AnswerParts& parts :
       {parser.push(answer), parser.finish(is_cut ? AnswerEnd::kCut : AnswerEnd::kWhole)}) {
    split.text += parts.text;
    add_calls(split.calls, parts.calls);
  }
  return split;
}

ExpectedCalls::ExpectedCalls(std::vector<std::int32_t> stop_tokens)
    : matcher_([] {
        static const GrammarMatcher first = first_place();
        return first;
      }()),
      stop_tokens_(std::move(stop_tokens)) {}

// A free token is drawn of all, and so is one behind which another mask holds, if that allows it.
std::int32_t ExpectedCalls::next(const Draw& draw) const {
  TokenMask mask(mask_words(ByteTokenizer::kVocabularySize));
  matcher_.allow(mask);
  if (matcher_.may_end())
    for (const std::int32_t token : stop_tokens_)
      mask[static_cast<std::size_t>(token) / 32] |= 1U << (token % 32);
  const bool is_free = matcher_.free_tokens() != nullptr;
  const std::int32_t token = draw(is_free ? TokenMask{} : mask, false);
  return has_token(mask, static_cast<std::size_t>(token)) ? token : draw(mask, true);
}

void ExpectedCalls::take(std::int32_t token) {
  if (!matcher_.accept(token)) throw std::logic_error("the grammar refuses what it allows");
}

}  // namespace troupe::sim
