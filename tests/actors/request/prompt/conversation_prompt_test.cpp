// SPDX-License-Identifier: Apache-2.0
#include "actors/request/prompt/conversation_prompt.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "actors/request/answer/stored_items.hpp"
#include "actors/request/prompt/prompt_encoding.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {
namespace conversation_prompt_test {
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
  EncodingBudget budget;
  return std::get<EncodedPrompt>(encode_messages(model, {.messages = std::move(messages)}, {}, {}, budget))
      .tokens;
}

std::variant<EncodedPrompt, ApiError> encode_turn(const ServedModel& model, const ConversationTurn& turn,
                                                  ChatPrompt added, const Conversation* conversation,
                                                  EncodingBudget& budget, const ServingLimits& limits = {}) {
  GenerationRequest request;
  request.prompt = std::move(added);
  request.turn = std::make_shared<const ConversationTurn>(turn);
  return encode_turn(model, request, conversation, {.limits = limits}, budget);
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
  EncodingBudget budget;
  return std::get<EncodedPrompt>(
      encode_turn(model, turn, {.messages = {{"user", question}}}, &conversation, budget));
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
  EncodingBudget budget;
  const auto first =
      std::get<EncodedPrompt>(encode_turn(model, turn, {.messages = {{"user", "one"}}}, nullptr, budget));
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

TEST_CASE("conversation prompt: stored calls and results are rendered as they were sent") {
  const auto model = demo_with(kDemoTemplate);
  const std::vector<ChatMessage> sent = {{.role = "user", .content = "Time?"},
                                         {.role = "assistant",
                                          .content = "Wait.",
                                          .tool_calls = {{.id = "c1", .name = "clock", .arguments = "{}"},
                                                         {.id = "c2", .name = "date", .arguments = "{}"}}},
                                         {.role = "tool", .content = "noon", .tool_call_id = "c1"},
                                         {.role = "tool", .content = "May", .tool_call_id = "c2"}};
  Conversation conversation;
  for (const auto& message : sent) append_items(conversation.messages, message);
  CHECK(conversation.messages.size() == 6);
  conversation.messages.push_back({"assistant", "Noon."});
  auto expected = sent;
  expected.push_back({.role = "assistant", .content = "Noon."});
  expected.push_back({.role = "user", .content = "Thanks."});
  // Without tokens all is encoded anew, and with them only the tail is.
  const auto anew = encode_next(model, conversation, "Thanks.");
  CHECK(anew.num_inherited == 0);
  CHECK(anew.tokens == encode(model, expected));
  conversation.vocabulary = model.vocabulary;
  conversation.tokens = {anew.tokens.begin(), anew.tokens.begin() + 10};
  const auto extended = encode_next(model, conversation, "Thanks.");
  CHECK(extended.num_inherited == 10);
  CHECK(text_of(model, {extended.tokens.begin() + 10, extended.tokens.end()}) ==
        "<|end|><|user|>Thanks.<|end|><|assistant|>");
}

TEST_CASE(
    "conversation prompt: tokens go on only below the same tools, where the model is shown or told of them") {
  const std::string shows_tools =
      std::string("{% for t in tools or [] %}{{ t.function.name }}{% endfor %}") + kDemoTemplate;
  // Calls and results, but no tools: the model hears nothing of them.
  const std::string shows_calls =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
      "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}"
      "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
  const std::string tools = R"([{"type":"function","function":{"name":"clock"}}])";
  for (const std::string& chat_template : {std::string(kDemoTemplate), shows_tools, shows_calls}) {
    CAPTURE(chat_template);
    const bool shows = chat_template != shows_calls;
    const auto model = demo_with(chat_template);
    auto conversation = first_turn(model, "one", "two");
    conversation.vocabulary = tokens_origin(model, {.messages = {}, .tools = tools});
    const auto inherited = [&](const std::string& offered) {
      EncodingBudget budget;
      return std::get<EncodedPrompt>(encode_turn(model, {.previous = "resp_1"},
                                                 {.messages = {{"user", "three"}}, .tools = offered},
                                                 &conversation, budget))
          .num_inherited;
    };
    CHECK(inherited(tools) == conversation.tokens.size());
    CHECK(inherited("") == (shows ? 0 : conversation.tokens.size()));
    CHECK((tokens_origin(model, {.messages = {}, .tools = tools}) == model.vocabulary) == !shows);
    CHECK(tokens_origin(model, {}) == model.vocabulary);
  }
}

TEST_CASE("conversation prompt: an answer with calls is encoded anew, as the template writes calls") {
  const auto model = demo_with(kDemoTemplate);
  auto conversation = first_turn(model, "one", "two");
  const auto inherited = [&](const std::vector<StoredMessage>& answer) {
    conversation.messages = {{"user", "one"}};
    conversation.messages.insert(conversation.messages.end(), answer.begin(), answer.end());
    return encode_next(model, conversation, "three").num_inherited;
  };
  const StoredMessage call = {"function_call", R"({"call_id":"c","name":"f","arguments":"{}"})"};
  CHECK(inherited({{"assistant", "two"}}) > 0);
  CHECK(inherited({{"reasoning", "hm"}, {"assistant", "two"}}) > 0);
  CHECK(inherited({{"assistant", "two"}, call}) == 0);
  CHECK(inherited({call, {"assistant", "two"}}) == 0);
  CHECK(inherited({call, {"function_call_output", R"({"call_id":"c","output":"x"})"}, {"assistant", "two"}}) >
        0);
}

TEST_CASE("conversation prompt: a model whose template knows no tools is told of them in every turn") {
  const auto model = demo_with(kDemoTemplate);
  const std::string tools = R"([{"type":"function","function":{"name":"clock"}}])";
  const auto told = [&](bool splits_answer, std::uint32_t context_length) {
    EncodingBudget budget;
    const ChatPrompt prompt = {.messages = {{"user", "one"}}, .tools = tools, .splits_answer = splits_answer};
    const auto encoded = std::get<EncodedPrompt>(
        encode_turn(model, {}, prompt, nullptr, budget, {.context_length = context_length}));
    return text_of(model, encoded.tokens).find("clock") != std::string::npos;
  };
  CHECK(told(true, 2048));
  CHECK_FALSE(told(true, 8));
  CHECK_FALSE(told(false, 2048));
}

TEST_CASE("conversation prompt: whatever was said, encoding the next turn is linear in it") {
  const auto model = demo_with(kDemoTemplate);
  const auto steps = [&](const std::string& part, std::size_t num_bytes) {
    std::string question;
    for (std::size_t i = 0; question.size() < num_bytes; ++i) question += part + std::to_string(i) + "End";
    const auto conversation = first_turn(model, "hi", "there");
    EncodingBudget budget;
    const auto prompt = std::get<EncodedPrompt>(encode_turn(
        model, {.previous = "resp_1"}, {.messages = {{"user", question}}}, &conversation, budget));
    CHECK(prompt.num_inherited == conversation.tokens.size());
    return budget.num_steps();
  };
  const auto once = steps("Marker", 1 << 19), twice = steps("Marker", 1 << 20);
  CHECK(once >= 1 << 19);
  CHECK(twice < 2 * once + once / 8);
  CHECK(twice < 2 * steps("any", 1 << 20));
}

TEST_CASE("conversation prompt: the tokens of the conversation count towards the limit") {
  const auto model = demo_with(kDemoTemplate);
  const auto conversation = first_turn(model, "My name is Anna.", "Nice to meet you, Anna.");
  const auto whole = encode_next(model, conversation, "What is my name?");
  const auto is_refused = [&](std::size_t max_tokens) {
    EncodingBudget budget(max_tokens);
    try {
      encode_turn(model, {.previous = "resp_1"}, {.messages = {{"user", "What is my name?"}}}, &conversation,
                  budget);
      return false;
    } catch (const EncodingStopped& stopped) {
      return stopped.reason() == EncodingStop::kTooManyTokens;
    }
  };
  CHECK_FALSE(is_refused(whole.tokens.size()));
  CHECK(is_refused(whole.tokens.size() - 1));
  CHECK(is_refused(3));
}

}  // namespace conversation_prompt_test
}  // namespace troupe
