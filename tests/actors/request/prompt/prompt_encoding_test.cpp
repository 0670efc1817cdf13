// SPDX-License-Identifier: Apache-2.0
#include "actors/request/prompt/prompt_encoding.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "tests/actors/byte_model.hpp"
#include "tests/text/text_data.hpp"

namespace troupe {
namespace {

TEST_CASE("prompt encoding: texts are tokenized, tokens taken as they are") {
  GenerationRequest request;
  request.prompt = TextPrompt{"ab"};
  CHECK(std::get<0>(encode_prompt(byte_model(), request)).tokens == std::vector<std::int32_t>{97, 98});
  request.prompt = TokenPrompt{{5, 6}};
  CHECK(std::get<0>(encode_prompt(byte_model(), request)).tokens == std::vector<std::int32_t>{5, 6});
}

TEST_CASE("prompt encoding: messages need a chat template") {
  GenerationRequest request;
  request.prompt = ChatPrompt{.messages = {{"user", "hello"}}};
  const auto error = std::get<ApiError>(encode_prompt(byte_model(), request));
  CHECK(error.kind == ApiErrorKind::kInvalidRequest);
  CHECK(error.field == "messages");
}

TEST_CASE("prompt encoding: chats are rendered in the memory that their caller keeps") {
  auto model = byte_model();
  model.chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(
      "{{ messages[0].content }}{% if messages[0].content == 'no' %}{{ raise_exception('no') }}{% endif %}"));
  std::string buffer;
  buffer.reserve(100'000);
  const char* const memory = buffer.data();
  const PromptTerms terms{.buffer = &buffer};
  for (const std::string content : {"hello", "once more", "no"}) {
    GenerationRequest request;
    request.prompt = ChatPrompt{.messages = {{"user", content}}};
    const auto encoded = encode_prompt(model, request, nullptr, terms);
    const auto* prompt = std::get_if<EncodedPrompt>(&encoded);
    CHECK((prompt != nullptr) == (content != "no"));
    if (prompt == nullptr) continue;
    CHECK(model.tokenizer->decode(prompt->tokens, false) == content);
    CHECK(buffer.data() == memory);
  }
}

TEST_CASE("prompt encoding: instructions go where the template shows them") {
  auto model = byte_model();
  // As Qwen3.5's.
  model.chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(
      "{% for m in messages %}{% if m.role == 'developer' or (m.role == 'system' and not loop.first) %}"
      "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
      "{{ m.role + ':' + m.content + ';' }}{% endfor %}"));
  GenerationRequest request;
  request.prompt =
      ChatPrompt{.messages = {{"developer", "Be kind."}, {"user", "hello"}, {"system", "9 left"}}};
  const auto encoded = encode_prompt(model, request);
  REQUIRE(std::holds_alternative<EncodedPrompt>(encoded));
  CHECK(model.tokenizer->decode(std::get<EncodedPrompt>(encoded).tokens, false) ==
        "system:Be kind.;user:hello\n\n<system>\n9 left\n</system>;");
}

TEST_CASE("prompt encoding: a template that shows tools is given them, another encodes as without") {
  auto model = byte_model();
  const auto prompt_of = [&](const std::string& source, const std::string& tools) {
    model.chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(source));
    GenerationRequest request;
    request.prompt = ChatPrompt{.messages = {{"user", "hello"}}, .tools = tools};
    const auto encoded = encode_prompt(model, request);
    const auto* error = std::get_if<ApiError>(&encoded);
    REQUIRE_MESSAGE(error == nullptr, error->message);
    return model.tokenizer->decode(std::get<0>(encoded).tokens, false);
  };
  const std::string tools = R"([{"type":"function","function":{"name":"clock"}}])";
  const std::string shows =
      "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}{{ messages[0].content }}";
  CHECK(prompt_of(shows, tools) == "clock;hello");
  CHECK(prompt_of(shows, "") == "hello");
  CHECK(prompt_of("{{ messages[0].content }}", tools) == "hello");
  // It would refuse what it does not know.
  CHECK(prompt_of("{% if tools %}{{ raise_exception('no tools') }}{% endif %}{{ messages[0].content }}",
                  tools) == "hello");
}

TEST_CASE("prompt encoding: a template that switches reasoning is told, another encodes as without") {
  auto model = byte_model();
  const auto prompt_of = [&](const std::string& source, std::optional<bool> thinks) {
    model.chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(source));
    GenerationRequest request;
    request.prompt = ChatPrompt{.messages = {{"user", "hello"}}, .thinks = thinks};
    return model.tokenizer->decode(std::get<0>(encode_prompt(model, request)).tokens, false);
  };
  const std::string switches = "{{ messages[0].content }}{% if enable_thinking is false %}!{% endif %}";
  CHECK(prompt_of(switches, std::nullopt) == "hello");
  CHECK(prompt_of(switches, true) == "hello");
  CHECK(prompt_of(switches, false) == "hello!");
  CHECK(prompt_of("{{ messages[0].content }}", false) == "hello");
}

TEST_CASE("prompt encoding: a suffix needs a model with tokens for it, whose texts it stands between") {
  class FillInTokenizer final : public ByteTokenizer {
   public:
    std::optional<TokenId> token_id(std::string_view content) const override {
      if (content == "[PREFIX]") return 1;
      if (content == "[SUFFIX]") return 2;
      return ByteTokenizer::token_id(content);
    }
    std::vector<TokenId> encode_within(EncodingBudget& budget, std::string_view text,
                                       std::span<const TextRange> trusted) const override {
      std::vector<TokenId> tokens;
      for (std::size_t at = 0; at < text.size();) {
        const auto marker =
            std::find_if(trusted.begin(), trusted.end(), [&](TextRange range) { return range.begin == at; });
        const std::size_t end = marker == trusted.end() ? at + 1 : marker->end;
        const auto piece = text.substr(at, end - at);
        const auto id = token_id(piece);
        tokens.push_back(id ? *id : ByteTokenizer::encode_within(budget, piece, {}).at(0));
        at = end;
      }
      return tokens;
    }
  };
  auto model = byte_model();
  GenerationRequest request;
  request.prompt = TextPrompt{.text = "ab", .suffix = "c"};
  const auto error = std::get<ApiError>(encode_prompt(model, request));
  CHECK(error.field == "suffix");
  CHECK(error.message == "The model bytes can't fill in text: its tokenizer has no tokens for that.");
  model.tokenizer = std::make_shared<const FillInTokenizer>();
  CHECK(std::get<0>(encode_prompt(model, request)).tokens == std::vector<std::int32_t>{2, 'c', 1, 'a', 'b'});
  CHECK(prompt_text_bytes(request, nullptr) == 3);
}

TEST_CASE(
    "prompt encoding: a text of messages spells special tokens in vain, a text prompt that reads them does "
    "not") {
  auto model = byte_model();
  model.tokenizer = load_tokenizer(fixture_dir() / "sentencepiece");
  model.chat_template =
      std::make_shared<const ChatTemplate>(ChatTemplate::parse("{{ messages[0].content }}"));
  const std::string text = "the</s>";
  const auto tokens_of = [&](auto prompt) {
    GenerationRequest request;
    request.prompt = std::move(prompt);
    return std::get<0>(encode_prompt(model, request)).tokens;
  };
  const auto has_special = [&](const std::vector<std::int32_t>& tokens) {
    return std::any_of(tokens.begin() + 1, tokens.end(),
                       [&](std::int32_t token) { return model.tokenizer->is_special(token); });
  };
  CHECK_FALSE(has_special(tokens_of(ChatPrompt{.messages = {{"user", text}}})));
  CHECK_FALSE(has_special(tokens_of(TextPrompt{.text = text})));
  const auto tokens = tokens_of(TextPrompt{.text = text, .reads_special_tokens = true});
  CHECK(tokens.back() == *model.tokenizer->token_id("</s>"));
}

TEST_CASE("prompt encoding: a text prompt that spells the model's first token gets no second one") {
  auto model = byte_model();
  for (const std::string name : {"sentencepiece", "byte_level"}) {
    CAPTURE(name);
    model.tokenizer = load_tokenizer(fixture_dir() / name);
    const Tokenizer& tokenizer = *model.tokenizer;
    const std::string bos(tokenizer.token_content(*tokenizer.bos_token()));
    const auto tokens_of = [&](const std::string& text, bool adds_special_tokens) {
      GenerationRequest request;
      request.prompt =
          TextPrompt{.text = text, .adds_special_tokens = adds_special_tokens, .reads_special_tokens = true};
      return std::get<0>(encode_prompt(model, request)).tokens;
    };
    CHECK(tokens_of("", true) == std::vector<std::int32_t>{*tokenizer.bos_token()});
    CHECK(tokens_of("the", true) == tokens_of(bos + "the", true));
    CHECK(tokens_of(bos + "the", true) == tokens_of(bos + "the", false));
    CHECK(tokens_of("the", true).size() == tokens_of("the", false).size() + 1);
    CHECK(tokens_of(bos + bos + "the", true).size() == tokens_of("the", true).size() + 1);
  }
}

TEST_CASE("prompt encoding: a text prompt's own first token leaves it as many others as the model's") {
  auto model = byte_model();
  model.tokenizer = load_tokenizer(fixture_dir() / "sentencepiece");
  GenerationRequest request;
  const auto fits = [&](const std::string& text, std::uint32_t context_length) {
    request.prompt = TextPrompt{.text = text, .reads_special_tokens = true};
    const auto encoded =
        encode_prompt(model, request, nullptr,
                      {.limits = {.context_length = context_length, .page_capacity = context_length}});
    return std::holds_alternative<EncodedPrompt>(encoded);
  };
  const auto num_tokens = static_cast<std::uint32_t>(model.tokenizer->encode("the the the").size()) + 1;
  CHECK(fits("<s>the the the", num_tokens + 1));
  CHECK_FALSE(fits("<s>the the the", num_tokens));
}

TEST_CASE("prompt encoding: a pair is put together as the tokenizer says, and cut where that is asked for") {
  class PairTokenizer final : public ByteTokenizer {
   public:
    std::optional<PairTokens> pair_tokens() const override {
      return PairTokens{.prefix = {1}, .middle = {2}, .suffix = {3}, .has_types = true};
    }
  };
  auto model = byte_model();
  GenerationRequest request;
  request.wants_vector = true;
  request.prompt = TextPrompt{.text = "cdef", .first = std::make_shared<const std::string>("ab")};
  CHECK(std::get<ApiError>(encode_prompt(model, request)).field == "model");
  model.tokenizer = std::make_shared<const PairTokenizer>();
  const auto whole = std::get<EncodedPrompt>(encode_prompt(model, request));
  CHECK(whole.tokens == std::vector<std::int32_t>{1, 97, 98, 2, 99, 100, 101, 102, 3});
  CHECK(whole.second_text == 4);
  const PromptTerms terms{.limits = {.context_length = 8}};
  const auto error = std::get<ApiError>(encode_prompt(model, request, nullptr, terms));
  CHECK(error.kind == ApiErrorKind::kContextTooLong);
  request.truncates = true;
  const auto cut = std::get<EncodedPrompt>(encode_prompt(model, request, nullptr, terms));
  CHECK(cut.tokens == std::vector<std::int32_t>{1, 97, 98, 2, 99, 100, 101, 3});
  CHECK(prompt_text_bytes(request) == 6);
}

TEST_CASE("prompt encoding: the work is measured in bytes of text") {
  GenerationRequest request;
  request.prompt = TextPrompt{"abc"};
  CHECK(prompt_text_bytes(request) == 3);
  request.prompt = ChatPrompt{.messages = {{"user", "hello"}, {"user", "you"}}};
  CHECK(prompt_text_bytes(request) == 16);
  request.prompt = ChatPrompt{
      .messages = {{.role = "assistant", .tool_calls = {{.name = "f", .arguments = "{}"}}}}, .tools = "[]"};
  CHECK(prompt_text_bytes(request) == 14);
  const std::string much(1 << 20, 'x');
  for (const ChatMessage& message :
       {ChatMessage{.content = much}, ChatMessage{.tool_call_id = much}, ChatMessage{.name = much},
        ChatMessage{.tool_calls = {{.id = much}}}, ChatMessage{.tool_calls = {{.name = much}}},
        ChatMessage{.tool_calls = {{.arguments = much}}}}) {
    request.prompt = ChatPrompt{.messages = {message}};
    CHECK(prompt_text_bytes(request) >= much.size());
  }
  request.prompt = TokenPrompt{{1, 2, 3}};
  CHECK(prompt_text_bytes(request) == 0);
}

constexpr ServingLimits kLimits{.context_length = 100, .page_capacity = 1000};

TEST_CASE("prompt encoding: what is too long for the context is refused in the words of an admission") {
  GenerationRequest request;
  request.prompt = TextPrompt{std::string(99, 'x')};
  CHECK_FALSE(refuse_unencoded(byte_model(), request, kLimits));
  CHECK(std::holds_alternative<EncodedPrompt>(
      encode_prompt(byte_model(), request, nullptr, {.limits = kLimits})));
  request.prompt = TextPrompt{std::string(100, 'x')};
  for (const auto& error : {refuse_unencoded(byte_model(), request, kLimits),
                            std::optional(std::get<ApiError>(
                                encode_prompt(byte_model(), request, nullptr, {.limits = kLimits})))}) {
    REQUIRE(error);
    CHECK(error->kind == ApiErrorKind::kContextTooLong);
    CHECK(error->message ==
          "This model's maximum context length is 100 tokens, of which one is for the answer; the "
          "prompt has more than 99 tokens.");
    CHECK(error->field == "prompt");
  }
  CHECK_FALSE(refuse_unencoded(byte_model(), request, {}));  // no device yet
  CHECK(std::holds_alternative<EncodedPrompt>(encode_prompt(byte_model(), request)));
}

TEST_CASE("prompt encoding: one that is interrupted ends as overload") {
  GenerationRequest request;
  request.prompt = TextPrompt{"hello"};
  const auto error = std::get<ApiError>(
      encode_prompt(byte_model(), request, nullptr, {.is_interrupted = [] { return true; }}));
  CHECK(error.kind == ApiErrorKind::kOverloaded);
}

TEST_CASE("prompt encoding: only what a template refuses by itself is the client's fault") {
  struct Row {
    const char* chat_template;
    ApiErrorKind kind;
    const char* part;
  };
  const Row rows[] = {
      {"{{ raise_exception('Roles must alternate.') }}", ApiErrorKind::kInvalidRequest,
       "Roles must alternate."},
      {"{{ no_such_function() }}", ApiErrorKind::kInternal, "'no_such_function' is undefined"},
      {"{{ messages[0].content + 1 }}", ApiErrorKind::kInternal, "chat template of the model bytes"},
      {"{% for m in messages %}{% for i in range(99999) %}{% endfor %}{% endfor %}",
       ApiErrorKind::kInvalidRequest, "too much for the model's chat template"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.chat_template);
    auto model = byte_model();
    model.chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::parse(row.chat_template));
    GenerationRequest request;
    request.prompt = ChatPrompt{.messages = {{"user", "hello"}, {"user", "you"}}};
    const auto error = std::get<ApiError>(encode_prompt(model, request));
    CHECK(error.kind == row.kind);
    CHECK(error.message.find(row.part) != std::string::npos);
  }
}

}  // namespace
}  // namespace troupe
