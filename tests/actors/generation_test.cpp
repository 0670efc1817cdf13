// SPDX-License-Identifier: Apache-2.0
// What a request asks for is what it gets. The simulated clients check every
// event against the answer worked out without an engine.
#include "actors/request.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "actors/request/answer/output_guide.hpp"
#include "actors/request/prompt/conversation_prompt.hpp"
#include "tests/actors/byte_tokenizer.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/actors/world.hpp"
#include "tests/simulation/expected_answer.hpp"
#include "tests/simulation/expected_calls.hpp"
#include "tests/support/dear_pattern.hpp"
#include "text/chat_template.hpp"

namespace troupe {
namespace {

TEST_CASE("generation: tokens are those of the model, alone and with others") {
  sim::SimWorld world(sim::small_settings());
  std::vector<std::shared_ptr<sim::SimClient>> clients;
  for (int i = 0; i < 20; ++i)
    clients.push_back(submit(world, letters(std::string(1 + i * 3, 'q'), 5 + i, i)));
  REQUIRE(world.run());
  for (const auto& client : clients) CHECK(client->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: the end token ends an answer and is not shown") {
  sim::SimWorld world(sim::small_settings());
  int num_stopped = 0;
  std::vector<std::shared_ptr<sim::SimClient>> clients;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto request = letters("prompt", 100, seed);
    request.ignore_eos = false;
    clients.push_back(submit(world, request));
  }
  REQUIRE(world.run());
  for (const auto& client : clients) num_stopped += client->finished()->reason == FinishReason::kStop ? 1 : 0;
  CHECK(num_stopped > 5);
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: min_tokens keeps the end token away until then") {
  sim::SimWorld world(sim::small_settings());
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    auto request = letters("prompt", 100, seed);
    request.ignore_eos = false;
    request.min_tokens = 60;
    request.stop_token_ids = {'e'};
    submit(world, request);
  }
  REQUIRE(world.run());
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: a stop string ends an answer and is cut off, or kept if asked") {
  for (const bool keeps : {false, true}) {
    sim::SimWorld world(sim::small_settings());
    const auto whole = submit(world, letters("prompt", 60));
    REQUIRE(world.run());
    const std::string stop = whole->text().substr(20, 3);
    auto request = letters("prompt", 60);
    request.stop = {"never", stop};
    request.include_stop_in_output = keeps;
    const auto client = submit(world, request);
    REQUIRE(world.run());
    CHECK(client->finished()->reason == FinishReason::kStop);
    CHECK(client->finished()->stop_string == stop);
    CHECK(client->text() == whole->text().substr(0, keeps ? 23 : 20));
    CHECK(leftovers(world) == "");
  }
}

TEST_CASE("generation: a stop token ends an answer and is named") {
  sim::SimWorld world(sim::small_settings());
  const auto whole = submit(world, letters("prompt", 60));
  REQUIRE(world.run());
  auto request = letters("prompt", 60);
  request.stop_token_ids = {whole->text()[30]};
  const auto client = submit(world, request);
  REQUIRE(world.run());
  CHECK(client->finished()->reason == FinishReason::kStop);
  CHECK(client->finished()->stop_token == whole->text()[30]);
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: echo says the prompt first, for text and for tokens") {
  sim::SimWorld world(sim::small_settings());
  auto request = letters("prompt", 4);
  request.echo = true;
  const auto text = submit(world, request);
  request.prompt = TokenPrompt{{'p', 'r', 'o', 'm', 'p', 't'}};
  const auto tokens = submit(world, request);
  REQUIRE(world.run());
  CHECK(text->text().starts_with("prompt"));
  CHECK(text->text() == tokens->text());
  CHECK(leftovers(world) == "");
}

// A space is part of every token, and taken off where a text begins.
class SpacingTokenizer final : public ByteTokenizer {
 public:
  SpacingTokenizer() {
    for (int byte = 0; byte < 256; ++byte) pieces_.push_back({' ', static_cast<char>(byte)});
  }
  std::string_view token_bytes(TokenId token) const override {
    return token < 0 || token >= kEos ? std::string_view() : pieces_[static_cast<std::size_t>(token)];
  }
  std::size_t num_stripped_leading_spaces() const override { return 1; }

 private:
  std::vector<std::string> pieces_;
};

// Without the simulated clients' own expectations, which are of bytes.
std::shared_ptr<RecordingSink> answer_to(sim::SimWorld& world, const GenerationRequest& request) {
  auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(request, sink);
  REQUIRE(world.run());
  REQUIRE(sink->finished());
  return sink;
}

TEST_CASE("generation: behind a prompt an answer keeps the space that a text begins without") {
  auto settings = sim::small_settings();
  settings.tokenizer = std::make_shared<const SpacingTokenizer>();
  settings.chat_template =
      std::make_shared<const ChatTemplate>(ChatTemplate::parse("{{ messages[0].content }}"));
  sim::SimWorld world(settings);
  const auto text_of = [&](auto prompt, bool echo = false) {
    auto request = letters("", 3);
    request.prompt = std::move(prompt);
    request.echo = echo;
    return answer_to(world, request)->text();
  };
  const std::string text = text_of(TextPrompt{"ab"});
  REQUIRE(text.size() >= 2);
  CHECK(text[0] == ' ');
  CHECK(text_of(TokenPrompt{{'a', 'b'}}) == text);
  CHECK(text_of(TextPrompt{"ab"}, true) == "ab" + text);
  CHECK(text_of(TokenPrompt{{'a', 'b'}}, true) == "a b" + text);
  CHECK(text_of(ChatPrompt{.messages = {{"user", "ab"}}}) == text.substr(1));
  CHECK_FALSE(text_of(TokenPrompt{{ByteTokenizer::kEos}}).starts_with(' '));  // nothing to see is in front
}

TEST_CASE("generation: with echo, tokens begin where their text does, the answer's too") {
  auto settings = sim::small_settings();
  settings.tokenizer = std::make_shared<const SpacingTokenizer>();
  sim::SimWorld world(settings);
  auto request = letters("ab", 3);
  request.echo = true;
  request.sampling.top_logprobs = 0;
  const auto sink = answer_to(world, request);
  const std::string text = sink->text();
  CHECK(text.starts_with("a b "));
  std::vector<AnswerToken> tokens;
  for (const ResponseEvent& event : sink->events())
    if (const auto* delta = std::get_if<TextDelta>(&event))
      tokens.insert(tokens.end(), delta->tokens.begin(), delta->tokens.end());
  REQUIRE(tokens.size() == 5);
  std::string joined;
  for (const AnswerToken& token : tokens) {
    CHECK(token.text_offset == (joined.empty() ? 0 : joined.size() - 1));
    if (token.token.id != ByteTokenizer::kEos) joined += token.token.text;
  }
  CHECK(joined == " " + text);
}

TEST_CASE("generation: with echo, a character that the prompt begins is completed by the answer") {
  class HalvedTokenizer final : public ByteTokenizer {
   public:
    std::string_view token_bytes(TokenId token) const override { return token == 'a' ? "\xC3" : "\xA4"; }
  };
  auto settings = sim::small_settings();
  settings.tokenizer = std::make_shared<const HalvedTokenizer>();
  sim::SimWorld world(settings);
  for (const std::uint32_t max_tokens : {0U, 1U}) {
    auto request = letters("ba", max_tokens);
    request.echo = true;
    request.sampling.top_logprobs = 0;
    const auto client = answer_to(world, request);
    CHECK(client->text() == (max_tokens == 0 ? "\uFFFD\uFFFD" : "\uFFFD\u00E4"));
  }
}

// The simulated clients know them, and that the first has none.
TEST_CASE("generation: with echo, log-probabilities are those of the prompt too, computed anew") {
  sim::SimWorld world(sim::small_settings());
  for (const std::uint32_t max_tokens : {0U, 1U, 20U}) {
    auto request = letters(std::string(50, 'p') + "rompt", max_tokens);
    request.echo = true;
    request.sampling.top_logprobs = 2;
    const auto alone = submit(world, request);  // its KV is there from the one before
    REQUIRE(world.run());
    CHECK(alone->text().starts_with("ppp"));
    CHECK(alone->finished()->usage.completion_tokens == max_tokens);
    CHECK(alone->finished()->usage.cached_tokens == 0);
    const auto one = submit(world, request);
    const auto other = submit(world, letters("another", 30));
    REQUIRE(world.run());
    CHECK(one->finished());
  }
  auto request = letters("p", 0);
  request.echo = true;
  request.sampling.top_logprobs = 0;
  const auto client = submit(world, request);
  REQUIRE(world.run());
  CHECK(client->text() == "p");
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: the prompt's log-probabilities come with the end, as many alternatives as asked for") {
  sim::SimWorld world(sim::small_settings());
  auto request = letters(std::string(50, 'p') + "rompt", 5);
  request.prompt_logprobs = 3;
  const auto scored = submit(world, request);
  request.echo = true;  // without log-probabilities of its own
  const auto echoed = submit(world, request);
  request.sampling.top_logprobs = 1;
  const auto both = submit(world, request);
  REQUIRE(world.run());
  CHECK(echoed->text().starts_with("ppp"));
  CHECK(echoed->tokens().empty());
  const auto& echo = both->tokens();
  REQUIRE(echo.size() == 60);
  for (const auto& client : {scored, echoed, both}) {
    const auto& tokens = client->finished()->prompt_scores->tokens;
    REQUIRE(tokens.size() == 55);
    CHECK_FALSE(tokens[0].has_logprob);
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      REQUIRE(tokens[i].top.size() == 3);
      REQUIRE(tokens[i].token.id == (i < 50 ? 'p' : "rompt"[i - 50]));
      REQUIRE(tokens[i].token.logprob == echo[i].token.logprob);
      REQUIRE(echo[i].top.size() == 1);
    }
  }
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: more log-probabilities of prompts than an answer may hold are refused by number") {
  sim::SimWorld world(sim::small_settings());
  const auto refusal = [&](GenerationRequest request) {
    const auto client = submit_refused(world, std::move(request));
    REQUIRE(world.run());
    REQUIRE(client->error());
    CHECK(client->error()->kind == ApiErrorKind::kInvalidRequest);
    CHECK(client->error()->field == "prompt_logprobs");
    return client->error()->message;
  };
  GenerationRequest request;
  request.prompt = TokenPrompt{std::vector<std::int32_t>(13'000, 'a')};
  request.max_tokens = 1;
  request.prompt_logprobs = 20;
  const std::string bounds =
      "Log-probabilities of prompts are at most 262144 of one and 1048576 in an answer, alternatives "
      "included; this one has ";
  CHECK(refusal(request) == bounds + "13000 tokens, each with 21, and its answer 273000 or more.");
  request = letters("prompt", 1);
  request.prompt_logprobs = 0;
  request.num_score_copies = 174'763;
  CHECK(refusal(request) == bounds + "6 tokens, each with 1, and its answer 1048578 or more.");
  request.num_score_copies = 174'762;
  const auto most = submit(world, request);
  REQUIRE(world.run());
  CHECK(most->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: log-probabilities of a long prompt come in pieces, and all before the answer") {
  auto settings = sim::small_settings();
  settings.device.description.context_length = 6000;
  settings.device.description.num_pages = 3000;
  settings.device.description.max_batch_tokens = settings.options.serving.max_batch_tokens = 512;
  settings.options.serving.prefill_chunk = 256;
  sim::SimWorld world(settings);
  auto request = letters(std::string(5000, 'p'), 3);
  request.echo = true;
  request.sampling.top_logprobs = 0;
  request.prompt_logprobs = 0;
  const auto client = submit(world, request);
  const auto neighbour = submit(world, letters("another", 3));
  REQUIRE(world.run());
  REQUIRE(client->finished());
  CHECK(client->text().size() == 5003);
  CHECK(client->text().starts_with(std::string(5000, 'p')));
  CHECK(client->tokens().size() == 5003);
  CHECK(client->finished()->prompt_scores->tokens.size() == 5000);
  CHECK(client->finished()->usage.completion_tokens == 3);
  CHECK(neighbour->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: log-probabilities of a list of prompts count by each prompt's own length") {
  sim::SimWorld world(sim::small_settings());
  const auto scores = std::make_shared<ScoreTally>();
  const auto refused = [&](const std::string& prompt, std::uint32_t num_copies) {
    auto request = letters(prompt, 1);
    request.prompt_logprobs = 0;
    request.num_score_copies = num_copies;
    request.scores_of_answer = scores;
    const auto client = num_copies > 1 ? submit_refused(world, request) : submit(world, request);
    REQUIRE(world.run());
    return client->error().has_value();
  };
  scores->add(1'048'576 - 8);  // of a long prompt
  CHECK_FALSE(refused("prompt", 1));
  CHECK_FALSE(refused("ab", 1));
  CHECK(refused("c", 2));
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: log-probabilities of prompts that never find room are refused, not put off") {
  auto settings = sim::small_settings();
  settings.options.max_prompt_bytes = 2000;
  sim::SimWorld world(settings);
  auto request = letters("prompt", 1);
  request.echo = true;
  request.sampling.top_logprobs = 1;
  request.num_score_copies = 10'000;
  const auto client = submit_refused(world, request);
  REQUIRE(world.run());
  REQUIRE(client->error());
  CHECK(client->error()->kind == ApiErrorKind::kInvalidRequest);
  CHECK(client->error()->field == "logprobs");
}

TEST_CASE("generation: log-probabilities of prompts, an echo's too, count while anybody holds the answer") {
  sim::SimWorld world(sim::small_settings());
  const auto num_held = [&] { return world.engine().environment().prompt_text->num_bytes(); };
  auto request = letters("prompt", 1);
  request.echo = true;
  request.sampling.top_logprobs = 1;
  for (const std::uint32_t number : {1'000U, 10'000U}) {
    request.num_score_copies = number;
    auto sink = std::make_shared<RecordingSink>();
    world.engine().submit(request, sink);
    REQUIRE(world.run());
    CHECK(sink->finished());
    CHECK((num_held() > 0) == (number == 10'000));  // the first are few
    sink.reset();
    CHECK(num_held() == 0);
  }
}

TEST_CASE("generation: what ends a text that is filled in does not before min_tokens") {
  class FillInTokenizer final : public ByteTokenizer {
   public:
    std::optional<TokenId> token_id(std::string_view content) const override {
      if (content == "<fim_prefix>") return 1;
      if (content == "<fim_suffix>") return 2;
      if (content == "<fim_middle>") return 3;
      if (content == "<|endoftext|>") return 'e';
      return ByteTokenizer::token_id(content);
    }
    std::vector<TokenId> encode_within(EncodingBudget& budget, std::string_view text,
                                       std::span<const TextRange> trusted) const override {
      if (const auto id = token_id(text)) return {*id};
      return ByteTokenizer::encode_within(budget, text, trusted);
    }
  };
  auto settings = sim::small_settings();
  settings.tokenizer = std::make_shared<const FillInTokenizer>();
  sim::SimWorld world(settings);
  bool ends_early = false;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    auto request = letters("", 60, seed);
    request.ignore_eos = false;
    request.prompt = TextPrompt{.text = "a", .suffix = "b"};
    for (const std::uint32_t min_tokens : {0U, 60U}) {
      request.min_tokens = min_tokens;
      const auto sink = std::make_shared<RecordingSink>();
      world.engine().submit(request, sink);
      REQUIRE(world.run());
      REQUIRE(sink->finished());
      const auto num_tokens = sink->finished()->usage.completion_tokens;
      CHECK(num_tokens >= min_tokens);
      CHECK(sink->text().find('e') == std::string::npos);  // nor is it drawn
      ends_early = ends_early || num_tokens < 60;
    }
  }
  CHECK(ends_early);
}

sim::SimSettings chatting_settings() {
  auto settings = sim::small_settings();
  settings.chat_template =
      std::make_shared<const ChatTemplate>(ChatTemplate::parse("{{ messages[0].content }}"));
  settings.device.description.context_length = 2048;  // of tools, too
  settings.device.description.num_pages = 1024;
  return settings;
}

GenerationRequest strict_chat() {
  auto request = letters("", 20);
  request.ignore_eos = false;
  request.prompt =
      ChatPrompt{.messages = {{"user", "x"}},
                 .tools = R"([{"type":"function","function":{"name":"f","strict":true,"parameters":{}}}])",
                 .has_strict_tool = true,
                 .splits_answer = true};
  return request;
}

TEST_CASE("generation: an answer that began unbound in an earlier process goes on unbound") {
  sim::SimWorld world(chatting_settings());
  auto request = strict_chat();
  const auto& model = world.engine().environment().models[0].served;
  const auto drawn = model.tokenizer->encode_with_specials("<tool_call>no");
  request.background = std::make_shared<const BackgroundRun>(
      BackgroundRun{.body = "",
                    .is_journaled = true,
                    .tokens = drawn,
                    .vocabulary = tokens_origin(model, std::get<ChatPrompt>(request.prompt))});
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(request, sink);
  REQUIRE(world.run());
  REQUIRE(sink->finished());
  CHECK(sink->finished()->usage.completion_tokens > drawn.size());
}

TEST_CASE(
    "generation: text around calls is what it would be unbound, and goes on so behind an earlier process") {
  std::size_t num_compared = 0;
  for (const bool waits_for_masks : {false, true}) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      CAPTURE(seed);
      auto settings = chatting_settings();
      settings.device.description.waits_for_masks = waits_for_masks;
      sim::SimWorld world(settings);
      const auto& model = world.engine().environment().models[0].served;
      const auto text_of = [&](std::uint32_t min_tokens, const std::string& drawn) {
        auto request = strict_chat();
        request.max_tokens = 60;
        request.min_tokens = min_tokens;
        request.sampling.seed = seed;
        if (!drawn.empty())
          request.background = std::make_shared<const BackgroundRun>(
              BackgroundRun{.body = "",
                            .is_journaled = true,
                            .tokens = model.tokenizer->encode_with_specials(drawn),
                            .vocabulary = tokens_origin(model, std::get<ChatPrompt>(request.prompt))});
        const auto sink = std::make_shared<RecordingSink>();
        world.engine().submit(request, sink);
        REQUIRE(world.run());
        REQUIRE(sink->finished());
        return sink->text();
      };
      const std::string unbound = text_of(1, ""), bound = text_of(0, "");
      if (bound.size() < 4) continue;  // it may end where the other may not
      ++num_compared;
      CHECK(bound == unbound);
      CHECK(text_of(0, bound.substr(0, bound.size() / 2)) == bound);
    }
  }
  CHECK(num_compared > 8);
}

TEST_CASE("generation: what an earlier process began and can't become the call that is demanded has failed") {
  sim::SimWorld world(chatting_settings());
  auto request = strict_chat();
  auto& chat = std::get<ChatPrompt>(request.prompt);
  chat.demands_call = true;
  const auto& model = world.engine().environment().models[0].served;
  request.background = std::make_shared<const BackgroundRun>(
      BackgroundRun{.body = "",
                    .is_journaled = true,
                    .tokens = model.tokenizer->encode_with_specials("<tool_call>no"),
                    .vocabulary = tokens_origin(model, chat)});
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(request, sink);
  REQUIRE(world.run());
  REQUIRE(sink->error());
  CHECK(sink->error()->kind == ApiErrorKind::kInternal);
  CHECK(sink->error()->message.find("tool_choice") != std::string::npos);
}

TEST_CASE(
    "generation: forms, strict tools and others have places of their own; only the last go on without") {
  using Share = OutputForms::Share;
  sim::SimWorld world(chatting_settings());
  OutputForms& forms = *world.engine().environment().forms;
  std::vector<std::shared_ptr<const void>> places;
  const auto take_all = [&](Share share) {
    for (const char* flow : {"one", "another"})
      while (auto place = forms.take_place(share, flow)) places.push_back(std::move(place));
  };
  const auto ask = [&](const std::function<void(GenerationRequest&)>& change) {
    auto request = strict_chat();
    request.max_tokens = 3;
    change(request);
    const auto sink = std::make_shared<RecordingSink>();
    world.engine().submit(std::move(request), sink);
    REQUIRE(world.run());
    CHECK(sink->num_terminal() == 1);
    return sink->error() ? sink->error()->kind : std::optional<ApiErrorKind>();
  };
  const auto strict = [](GenerationRequest&) {};
  const auto lax = [](GenerationRequest& request) {
    auto& chat = std::get<ChatPrompt>(request.prompt);
    chat.tools = R"([{"type":"function","function":{"name":"f","parameters":{}}}])";
    chat.has_strict_tool = false;
  };
  const auto with_form = [](GenerationRequest& request) { request.form = sim::sim_form(3); };
  const auto demanded = [](GenerationRequest& request) {
    std::get<ChatPrompt>(request.prompt).demands_call = true;
  };
  take_all(Share::kTools);
  CHECK(!ask(lax));
  CHECK(world.metric("troupe_calls_unbound_total") == 1);
  CHECK(!ask(strict));
  take_all(Share::kStrictTools);
  CHECK(ask(strict) == ApiErrorKind::kOverloaded);
  CHECK(!ask([](GenerationRequest& request) { request.ignore_eos = true; }));  // not to be bound
  CHECK(!ask([](GenerationRequest& request) { request.use = PromptUse::kEncode; }));
  CHECK(!ask(with_form));
  CHECK(!ask(demanded));
  take_all(Share::kDemand);
  CHECK(ask(with_form) == ApiErrorKind::kOverloaded);
  CHECK(ask(demanded) == ApiErrorKind::kOverloaded);
  CHECK(!ask(lax));
}

TEST_CASE(
    "generation: one flow has at most half of the places, and an answer may leave its own to the next") {
  using Share = OutputForms::Share;
  sim::SimWorld world(chatting_settings());
  OutputForms& forms = *world.engine().environment().forms;
  std::vector<std::shared_ptr<const void>> places;
  const auto ask = [&](GenerationRequest request, const std::string& flow) {
    request.max_tokens = 3;
    request.flow = flow;
    auto sink = std::make_shared<RecordingSink>();
    world.engine().submit(std::move(request), sink);
    REQUIRE(world.run());
    return sink;
  };
  while (auto place = forms.take_place(Share::kStrictTools, "one")) places.push_back(std::move(place));
  CHECK(places.size() == 32);
  REQUIRE(ask(strict_chat(), "one")->error());
  CHECK(ask(strict_chat(), "one")->error()->kind == ApiErrorKind::kOverloaded);
  CHECK(ask(strict_chat(), "another")->finished());
  places.pop_back();
  REQUIRE(ask(strict_chat(), "one")->finished());
  auto first = strict_chat();
  first.leaves_form_place = true;
  auto next = strict_chat();
  {
    const auto answered = ask(first, "one");
    REQUIRE(answered->finished());
    next.form_place = answered->finished()->form_place;
    CHECK(next.form_place);
  }
  CHECK(ask(strict_chat(), "one")->error());
  CHECK(ask(std::move(next), "one")->finished());
  CHECK(ask(strict_chat(), "one")->finished());
}

// Behind the second "a" of its argument the mask is too dear.
GenerationRequest dear_chat(bool is_strict) {
  auto request = letters("", 100);
  request.ignore_eos = false;
  const std::string tool =
      R"({"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string","pattern":")" +
      test::dear_pattern() + R"("}},"required":["a"],"additionalProperties":false}})";
  request.prompt = ChatPrompt{.messages = {{"user", "x"}},
                              .tools = R"([{"type":"function","function":)" + tool + "}]",
                              .has_strict_tool = is_strict,
                              .splits_answer = true};
  request.sampling.seed = 7;
  return request;
}

// A process that has drawn some of an answer, and has journaled that it is not bound from a place on.
void begin_earlier(GenerationRequest& request, const ServedModel& model, const std::string& drawn,
                   std::optional<std::uint32_t> unbound_from) {
  request.background = std::make_shared<const BackgroundRun>(
      BackgroundRun{.body = "",
                    .is_journaled = true,
                    .tokens = model.tokenizer->encode_with_specials(drawn),
                    .vocabulary = tokens_origin(model, std::get<ChatPrompt>(request.prompt)),
                    .unbound_from = unbound_from});
}

// The context's length is known once a device is ready; until then no text of tools is too long for it.
void wait_for_limits(sim::SimWorld& world) { world.run_for(std::chrono::milliseconds(1)); }

const std::string kDearBeginning = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"";

TEST_CASE(
    "generation: where a mask is too dear calls go on unbound, and so they do behind an earlier process") {
  const auto answer_of = [](std::optional<std::uint32_t> unbound_from, const std::string& drawn) {
    sim::SimWorld world(chatting_settings());
    wait_for_limits(world);
    auto request = dear_chat(false);
    begin_earlier(request, world.engine().environment().models[0].served, drawn, unbound_from);
    const auto sink = std::make_shared<RecordingSink>();
    world.engine().submit(request, sink);
    REQUIRE(world.run());
    REQUIRE(sink->finished());
    std::string calls;
    for (const ResponseEvent& event : sink->events())
      if (const auto* delta = std::get_if<TextDelta>(&event)) sim::add_calls(calls, delta->calls);
    return std::pair(calls + sink->text(), world.metric("troupe_calls_unbound_total"));
  };
  const auto [whole, num_unbound] = answer_of({}, kDearBeginning);
  CHECK(num_unbound == 1);
  const std::size_t begin = whole.find("aa");
  REQUIRE(begin != std::string::npos);
  REQUIRE(whole.find_first_not_of('a', begin) != std::string::npos);
  const auto drawn = [&](std::size_t size) { return kDearBeginning + whole.substr(begin, size); };
  const auto place = static_cast<std::uint32_t>(kDearBeginning.size() + 2);
  CHECK(answer_of({}, drawn(1)) == std::pair(whole, 1.0));
  CHECK(answer_of(place, drawn(1)) == std::pair(whole, 0.0));
  CHECK(answer_of(place, drawn(2)) == std::pair(whole, 0.0));
  CHECK(answer_of(place, drawn(5)) == std::pair(whole, 0.0));
}

TEST_CASE("generation: behind the place where a call went unbound it is not bound again, were it allowed") {
  sim::SimWorld world(chatting_settings());
  auto request = strict_chat();
  request.max_tokens = 80;
  std::get<ChatPrompt>(request.prompt).has_strict_tool = false;
  begin_earlier(request, world.engine().environment().models[0].served, "<tool_call>", 3);
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(request, sink);
  REQUIRE(world.run());
  REQUIRE(sink->finished());
  CHECK(sink->text().starts_with("<tool_call>"));  // no call, as the model would write none by itself
}

TEST_CASE("generation: a strict call that can't be bound to its end has failed, and says why") {
  sim::SimWorld world(chatting_settings());
  wait_for_limits(world);
  auto request = dear_chat(true);
  begin_earlier(request, world.engine().environment().models[0].served, kDearBeginning, {});
  const auto sink = std::make_shared<RecordingSink>();
  world.engine().submit(request, sink);
  REQUIRE(world.run());
  REQUIRE(sink->error());
  CHECK(sink->error()->field == "tools");
}

TEST_CASE("generation: where a form can't be followed on nothing may come, not even what ends the answer") {
  class LongTokenizer final : public ByteTokenizer {
   public:
    std::size_t vocabulary_size() const override { return kVocabularySize + 1; }
    std::size_t max_token_bytes() const override { return long_.size(); }
    std::string_view token_bytes(TokenId token) const override {
      const bool is_long = static_cast<std::size_t>(token) == kVocabularySize;
      return is_long ? std::string_view(long_) : ByteTokenizer::token_bytes(token);
    }

   private:
    const std::string long_ = std::string(200, 'a');
  };
  sim::SimWorld world(sim::small_settings());
  ServedModel model = world.engine().environment().models[0].served;
  model.tokenizer = std::make_shared<const LongTokenizer>();
  OutputForm form{
      .kind = OutputForm::Kind::kGrammar, .text = "root ::= \"b\" ([a]{2,900}", .field = "grammar"};
  for (int i = 1; i < 2000; ++i) form.text += " | [a]{2,900}";
  form.text += ")?";
  OutputForms forms(1);
  auto found = forms.guide(0, model, form);
  REQUIRE(std::holds_alternative<OutputGuide>(found));
  auto& guide = std::get<OutputGuide>(found);
  guide.may_end_with({7});
  REQUIRE(guide.take('b'));
  const auto allowed = guide.allowed();
  CHECK(*allowed == TokenMask(allowed->size()));
}

TEST_CASE("generation: grammars of many lists of tools are kept, as far as their bytes allow") {
  sim::SimWorld world(chatting_settings());
  const ServedModel& model = world.engine().environment().models[0].served;
  const auto free_of = [&](OutputForms& forms, int number) {
    const std::string tools = R"([{"type":"function","function":{"name":"f)" + std::to_string(number) +
                              R"(","parameters":{"type":"object"}}}])";
    const AnswerReading reading{
        .format = model.chat_template->answer_format(), .reads_calls = true, .tools = tools};
    const auto guide = forms.guide(0, model, reading, {.may_be_text = true});
    return std::get<OutputGuide>(guide).free();  // one mask for all guides of a grammar
  };
  OutputForms roomy(1), narrow(1, 100'000);
  const auto first = free_of(roomy, 0), first_narrow = free_of(narrow, 0);
  REQUIRE(first);
  CHECK(free_of(narrow, 0) == first_narrow);
  for (int number = 1; number < 40; ++number) {
    free_of(roomy, number);
    free_of(narrow, number);
  }
  CHECK(free_of(roomy, 0) == first);
  CHECK(free_of(narrow, 0) != first_narrow);
}

TEST_CASE("generation: whether calls are bound is what the journal says, whatever the load") {
  using Share = OutputForms::Share;
  for (const bool was_unbound : {false, true}) {
    CAPTURE(was_unbound);
    sim::SimWorld world(chatting_settings());
    OutputForms& forms = *world.engine().environment().forms;
    std::vector<std::shared_ptr<const void>> places;
    if (!was_unbound)
      while (auto place = forms.take_place(Share::kTools, "")) places.push_back(std::move(place));
    auto request = strict_chat();
    request.max_tokens = 80;
    auto& chat = std::get<ChatPrompt>(request.prompt);
    chat.has_strict_tool = false;
    chat.tools = R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
    begin_earlier(request, world.engine().environment().models[0].served, "<tool_call>",
                  was_unbound ? std::optional(0U) : std::nullopt);
    const auto sink = std::make_shared<RecordingSink>();
    world.engine().submit(request, sink);
    REQUIRE(world.run());
    REQUIRE(sink->finished());
    // A call is begun, so a bound one goes on with its end; the model would not by itself.
    CHECK(sink->text().starts_with("<tool_call>") == was_unbound);
    CHECK(world.metric("troupe_calls_unbound_total") == 0);
  }
}

TEST_CASE("generation: an answer that is ranked tells its mean log-probability, and shows none") {
  sim::SimWorld world(sim::small_settings());
  auto request = letters("prompt", 20);
  request.sampling.top_logprobs = 0;
  const auto shown = submit(world, request);
  request.sampling.top_logprobs = SamplingParameters::kNoLogprobs;
  request.is_ranked = true;
  const auto ranked = submit(world, request);
  request.echo = true;  // of the answer's tokens alone
  const auto echoed = submit(world, request);
  REQUIRE(world.run());
  REQUIRE(shown->tokens().size() == 20);
  double sum = 0.0;
  for (const AnswerToken& token : shown->tokens()) sum += token.token.logprob;
  CHECK(sum < 0.0);
  CHECK(ranked->finished()->mean_logprob == doctest::Approx(sum / 20));
  CHECK(echoed->finished()->mean_logprob == doctest::Approx(sum / 20));
  CHECK(ranked->tokens().empty());
  CHECK(shown->finished()->mean_logprob == 0.0);
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: no tokens asked for, none given") {
  sim::SimWorld world(sim::small_settings());
  const auto client = submit(world, letters("prompt", 0));
  REQUIRE(world.run());
  CHECK(client->finished()->reason == FinishReason::kLength);
  CHECK(client->text() == "");
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: without max_tokens it goes on to the end of the context") {
  sim::SimWorld world(sim::small_settings());
  auto request = letters("prompt", 1);
  request.max_tokens.reset();
  const auto client = submit(world, request);
  REQUIRE(world.run());
  CHECK(client->finished()->usage.completion_tokens == 128 - 6);
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: a prompt of several chunks does not hold up who is answered") {
  auto settings = sim::small_settings();
  settings.options.serving.prefill_chunk = 4;
  settings.options.serving.max_in_flight = 1;
  sim::SimWorld world(settings);
  const auto quick = submit(world, letters("q", 30));
  world.run([&] { return quick->text().size() >= 5; });
  const auto before = quick->text().size();
  const auto slow = submit(world, letters(std::string(100, 's'), 5));
  world.run([&] { return !slow->text().empty(); });
  CHECK(quick->text().size() >= before + 100 / 4);
  REQUIRE(world.run());
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: a request without a seed gets one of its own") {
  sim::SimWorld world(sim::small_settings());
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 2; ++i) {
    auto request = letters("prompt", 30, 0);
    request.has_seed = false;
    sinks.push_back(std::make_shared<RecordingSink>());
    world.engine().submit(request, sinks.back());
  }
  REQUIRE(world.run());
  CHECK(sinks[0]->finished()->usage.completion_tokens == 30);
  CHECK(sinks[0]->text() != sinks[1]->text());
}

TEST_CASE("generation: a device that must be polled serves as well") {
  auto settings = sim::small_settings();
  settings.device.is_polled = true;
  sim::SimWorld world(settings);
  const auto client = submit(world, letters("prompt", 50));
  REQUIRE(world.run());
  CHECK(client->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: two batches are in flight, and one wasted step at most") {
  sim::SimWorld world(sim::small_settings());
  auto request = letters("prompt", 40);
  const auto client = submit(world, request);
  std::size_t most = 0;
  while (world.step() || world.advance()) most = std::max(most, world.scheduler().num_in_flight());
  CHECK(most == 2);
  // The length was known: a prefill of one chunk and a step for each further token.
  CHECK(world.devices().num_batches == 40);
  CHECK(leftovers(world) == "");
}

TEST_CASE("generation: a lone sequence has as many batches in flight as there may be") {
  for (std::uint32_t max_in_flight = 1; max_in_flight <= 5; ++max_in_flight) {
    auto settings = sim::small_settings();
    settings.options.serving.max_in_flight = max_in_flight;
    sim::SimWorld world(settings);
    auto request = letters("prompt", 40);
    request.sampling.frequency_penalty = 0.3F;
    std::uint32_t most_pending = 0;
    world.devices().choose_fault = [&](const Batch& batch, std::uint64_t) {
      CHECK(batch.slices.size() == 1);
      most_pending = std::max(most_pending, batch.slices.front().num_pending);
      return sim::Fault::kNone;
    };
    const auto client = submit(world, request);
    std::size_t most = 0;
    while (world.step() || world.advance()) most = std::max(most, world.scheduler().num_in_flight());
    CHECK(client->finished()->usage.completion_tokens == 40);
    CHECK(most == max_in_flight);
    CHECK(most_pending == max_in_flight - 1);
    CHECK(world.devices().num_batches == 40);
    CHECK(leftovers(world) == "");
  }
}

// What is computed behind an end that nobody foresaw is not shown, not kept, and
// gives its pages back.
TEST_CASE("generation: an end in the midst of five batches wastes four, and nothing remains of them") {
  auto settings = sim::small_settings();
  settings.options.serving.max_in_flight = 5;
  sim::SimWorld world(settings);
  std::uint32_t num_tokens = 0, num_ended = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    auto request = letters("prompt", 100, seed);
    request.ignore_eos = false;
    const auto before = world.devices().num_batches;
    const auto client = submit(world, request);
    REQUIRE(world.run());
    REQUIRE(client->finished());
    num_tokens = client->finished()->usage.completion_tokens;
    CHECK(world.devices().num_batches - before <= num_tokens + 5);
    if (client->finished()->reason == FinishReason::kStop) {
      num_ended += 1;
      CHECK(world.devices().num_batches - before > num_tokens);
    }
    CHECK(leftovers(world) == "");
    // The turn that follows finds the KV of what was said, and is right.
    const auto next = submit(world, letters("prompt" + client->text(), 20, seed));
    REQUIRE(world.run());
    CHECK(next->finished());
  }
  CHECK(num_ended > 3);
}

// The simulated clients know the answers with penalties and log-probabilities.
TEST_CASE("generation: penalties know what is in flight, and after pauses and deaths what was drawn") {
  for (std::uint32_t max_in_flight = 1; max_in_flight <= 5; ++max_in_flight) {
    auto settings = sim::small_settings();
    settings.options.serving.max_in_flight = max_in_flight;
    settings.options.max_restarts = 1000;
    settings.options.pause_bytes = 10;
    sim::SimWorld world(settings);
    world.devices().choose_fault = [](const Batch& batch, std::uint64_t number) {
      const bool is_alone = batch.slices.size() <= 1;  // it would be taken for the cause
      return number % 23 == 0 && !is_alone ? sim::Fault::kBatchError : sim::Fault::kNone;
    };
    std::vector<std::shared_ptr<sim::SimClient>> clients;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      sim::ClientPlan plan;
      plan.request = letters("repeat repeat", 60, seed);
      plan.request.sampling.frequency_penalty = seed % 2 == 0 ? 0.3F : 0.0F;
      plan.request.sampling.repetition_penalty = seed % 3 == 0 ? 1.0F : 1.1F;
      plan.request.sampling.top_logprobs = static_cast<std::int32_t>(seed) - 1;
      if (seed == 4) plan.read_interval = std::chrono::milliseconds(20);
      clients.push_back(submit(world, plan));
    }
    REQUIRE(world.run());
    for (const auto& client : clients) CHECK(client->finished());
    CHECK(world.devices().num_devices > 1);
    CHECK(leftovers(world) == "");
  }
}

TEST_CASE("generation: who asks for no penalties has none in its batches") {
  sim::SimWorld world(sim::small_settings());
  std::size_t num_penalized = 0;
  world.devices().choose_fault = [&](const Batch& batch, std::uint64_t) {
    for (const auto& slice : batch.slices) num_penalized += slice.penalized.size() + slice.num_pending;
    return sim::Fault::kNone;
  };
  submit(world, letters("prompt", 20));
  REQUIRE(world.run());
  CHECK(num_penalized == 0);
  auto request = letters("aab", 20);
  request.sampling.repetition_penalty = 1.5F;
  submit(world, request);
  REQUIRE(world.run());
  CHECK(num_penalized > 20);
}

// The simulated device holds more against a batch than its limit allows.
TEST_CASE("generation: lists of penalized tokens that do not fit together take turns") {
  for (const std::uint32_t max_in_flight : {1U, 2U, 3U}) {
    auto settings = sim::small_settings();
    settings.options.serving.max_in_flight = max_in_flight;
    settings.device.description.max_penalized_tokens = 40;
    sim::SimWorld world(settings);
    std::vector<std::uint64_t> turns;  // of those with lists
    world.devices().choose_fault = [&](const Batch& batch, std::uint64_t) {
      for (const auto& slice : batch.slices)
        if (!slice.penalized.empty()) turns.push_back(slice.sequence);
      return sim::Fault::kNone;
    };
    std::vector<std::shared_ptr<sim::SimClient>> clients;
    for (const char* prompt : {"abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba"}) {
      auto request = letters(prompt, 30);
      request.sampling.repetition_penalty = 1.2F;
      clients.push_back(submit(world, request));
    }
    clients.push_back(submit(world, letters("nothing is penalized", 60)));
    REQUIRE(world.run());
    for (const auto& client : clients) CHECK(client->finished());
    CHECK(world.devices().num_devices == 1);
    CHECK(turns.size() == 60);
    std::size_t num_changes = 0;
    for (std::size_t i = 1; i < turns.size(); ++i) num_changes += turns[i] != turns[i - 1] ? 1 : 0;
    CHECK(num_changes > 50);
    CHECK(leftovers(world) == "");
  }
}

TEST_CASE("generation: a slow reader's sequence leaves the batch until it has read") {
  auto settings = sim::small_settings();
  settings.options.pause_bytes = 10;
  sim::SimWorld world(settings);
  sim::ClientPlan plan;
  plan.request = letters("prompt", 60);
  plan.read_interval = std::chrono::seconds(1);
  const auto slow = submit(world, plan);
  const auto quick = submit(world, letters("prompt two", 60));
  world.run_for(std::chrono::milliseconds(900));
  CHECK(quick->has_ended());
  CHECK(slow->text().size() > 10);
  CHECK(slow->text().size() <= 10 + 3);  // and what was in flight
  CHECK(world.engine().status().num_running == 0);
  CHECK(world.pages().counts().running == 0);
  CHECK(world.engine().status().trouble == Trouble::kNone);
  CHECK(world.engine().status().num_paused == 1);
  REQUIRE(world.run());
  CHECK(slow->finished());
  CHECK(leftovers(world) == "");
}

}  // namespace
}  // namespace troupe
