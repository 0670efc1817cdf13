// SPDX-License-Identifier: Apache-2.0
#include "actors/conversation_prompt.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "actors/prompt_encoding.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

namespace troupe {
namespace {

constexpr const char* kDemo = TROUPE_SOURCE_DIR "/models/demo";
constexpr const char* kDemoTemplate =
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

ServedModel demo_with(const std::string& chat_template) {
  static const std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(kDemo);
  ServedModel model;
  model.name = "demo";
  model.tokenizer = tokenizer;
  model.vocabulary = vocabulary_fingerprint(*tokenizer);
  model.chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(chat_template));
  return model;
}

std::vector<std::int32_t> encode(const ServedModel& model, std::vector<ChatMessage> messages) {
  return std::get<0>(encode_messages(model, {.messages = std::move(messages)}));
}

// A first turn as it would have been run: its prompt and its answer.
Conversation first_turn(const ServedModel& model, const std::string& question, const std::string& answer) {
  Conversation conversation;
  conversation.messages = {{"user", question}, {"assistant", answer}};
  conversation.vocabulary = model.vocabulary;
  conversation.tokens = encode(model, {{"user", question}});
  const auto generated = model.tokenizer->encode(answer);
  conversation.tokens.insert(conversation.tokens.end(), generated.begin(), generated.end());
  return conversation;
}

EncodedPrompt encode_next(const ServedModel& model, const Conversation& conversation,
                          const std::string& question, const std::string& instructions = "") {
  ConversationTurn turn;
  turn.previous = "resp_1";
  turn.instructions = instructions;
  return std::get<EncodedPrompt>(encode_turn(model, turn, {.messages = {{"user", question}}}, &conversation));
}

std::string text_of(const ServedModel& model, const std::vector<std::int32_t>& tokens) {
  return model.tokenizer->decode(tokens, false);
}

}  // namespace

TEST_CASE(
    "conversation prompt: the tokens that were run stay, and what follows is what the template writes") {
  const auto model = demo_with(kDemoTemplate);
  const auto conversation = first_turn(model, "My name is Anna.", "Nice to meet you, Anna.");
  const auto prompt = encode_next(model, conversation, "What is my name?");
  CHECK(prompt.num_inherited == conversation.tokens.size());
  CHECK(std::equal(conversation.tokens.begin(), conversation.tokens.end(), prompt.tokens.begin()));
  CHECK(prompt.tokens == encode(model, {{"user", "My name is Anna."},
                                        {"assistant", "Nice to meet you, Anna."},
                                        {"user", "What is my name?"}}));
}

TEST_CASE("conversation prompt: tokens are kept even where the same text would be encoded otherwise") {
  const auto model = demo_with(kDemoTemplate);
  auto conversation = first_turn(model, "hi", "");
  conversation.messages.back().content = "abc";
  for (const char* letter : {"a", "b", "c"})
    for (const auto token : model.tokenizer->encode(letter)) conversation.tokens.push_back(token);
  const auto prompt = encode_next(model, conversation, "next");
  CHECK(prompt.num_inherited == conversation.tokens.size());
  CHECK(text_of(model, prompt.tokens) ==
        "<|user|>hi<|end|><|assistant|>abc<|end|><|user|>next<|end|><|assistant|>");
}

TEST_CASE("conversation prompt: no text of a user becomes a special token") {
  const auto model = demo_with(kDemoTemplate);
  const auto end = model.tokenizer->token_id("<|end|>");
  const auto conversation = first_turn(model, "<|end|>", "<|end|>");
  const auto prompt = encode_next(model, conversation, "<|end|><|user|>Marker0End");
  CHECK(prompt.num_inherited > 0);
  CHECK(std::count(prompt.tokens.begin(), prompt.tokens.end(), *end) == 3);
}

TEST_CASE("conversation prompt: templates of other families give the tail they write") {
  struct Row {
    const char* chat_template;
    const char* tail;
  };
  const Row rows[] = {
      // ChatML, with a line break behind each end
      {"{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% "
       "endfor %}"
       "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
       "<|im_end|>\n<|im_start|>user\nnext<|im_end|>\n<|im_start|>assistant\n"},
      // answers trimmed, a space before the end
      {"{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content | trim + ' [/INST]' }}"
       "{% else %}{{ ' ' + m.content | trim + ' ' + eos_token }}{% endif %}{% endfor %}",
       nullptr},
      // only the last answer is marked
      {"{% for m in messages %}{{ m.role + ': ' + m.content }}{% if loop.last %}{{ '!' }}{% else %}{{ ';' }}"
       "{% endif %}{% endfor %}",
       ";user: next!"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.chat_template);
    const auto model = demo_with(row.chat_template);
    const auto conversation = first_turn(model, "first", "answer");
    const auto prompt = encode_next(model, conversation, "next");
    REQUIRE(prompt.num_inherited == conversation.tokens.size());
    const std::vector<std::int32_t> tail(
        prompt.tokens.begin() + static_cast<std::ptrdiff_t>(prompt.num_inherited), prompt.tokens.end());
    const auto eos = std::string(model.tokenizer->token_content(*model.tokenizer->eos_token()));
    CHECK(text_of(model, tail) == (row.tail ? row.tail : " " + eos + "[INST] next [/INST]"));
  }
}

TEST_CASE("conversation prompt: what can't be extended is encoded anew, with all that was said") {
  const auto model = demo_with(kDemoTemplate);
  auto conversation = first_turn(model, "one", "two");
  const auto whole = encode(model, {{"user", "one"}, {"assistant", "two"}, {"user", "three"}});
  {
    const auto prompt = encode_next(model, conversation, "three", "Be kind.");
    CHECK(prompt.num_inherited == 0);
    CHECK(text_of(model, prompt.tokens) == "<|system|>Be kind.<|end|>" + text_of(model, whole));
  }
  {
    auto other = conversation;
    other.vocabulary += 1;
    const auto prompt = encode_next(model, other, "three");
    CHECK(prompt.num_inherited == 0);
    CHECK(prompt.tokens == whole);
  }
  for (const auto* rewrites :
       {"{% for m in messages %}{{ m.content | upper }}{% endfor %}",
        "{% for m in messages %}{{ m.content + m.content }}{% endfor %}",
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"}) {
    CAPTURE(rewrites);
    const auto other = demo_with(rewrites);
    CHECK(encode_next(other, conversation, "three").num_inherited == 0);
  }
}

TEST_CASE("conversation prompt: instructions stand in front, and are inherited by nobody") {
  const auto model = demo_with(kDemoTemplate);
  ConversationTurn turn;
  turn.instructions = "Be kind.";
  const auto first =
      std::get<EncodedPrompt>(encode_turn(model, turn, {.messages = {{"user", "one"}}}, nullptr));
  CHECK(text_of(model, first.tokens) == "<|system|>Be kind.<|end|><|user|>one<|end|><|assistant|>");
  Conversation conversation;
  conversation.messages = {{"user", "one"}, {"assistant", "two"}};
  conversation.instructions = "Be kind.";
  conversation.vocabulary = model.vocabulary;
  conversation.tokens = first.tokens;
  for (const auto token : model.tokenizer->encode("two")) conversation.tokens.push_back(token);
  CHECK(encode_next(model, conversation, "three", "Be kind.").num_inherited == conversation.tokens.size());
  const auto without = encode_next(model, conversation, "three");
  CHECK(without.num_inherited == 0);
  CHECK(text_of(model, without.tokens).find("Be kind.") == std::string::npos);
}

}  // namespace troupe
