// SPDX-License-Identifier: Apache-2.0
// Several answers to one request: n, and lists of prompts.
#include "http/server/choices.hpp"

#include <array>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>

#include "tests/http/running_server.hpp"
#include "tests/support/eventually.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

Finished finished(std::uint32_t num_tokens, std::uint32_t num_cached = 0,
                  FinishReason reason = FinishReason::kStop) {
  return {.reason = reason,
          .stop_string = {},
          .stop_token = {},
          .usage = {.prompt_tokens = 5, .completion_tokens = num_tokens, .cached_tokens = num_cached}};
}

std::string chat(const std::string& more) {
  return post_request("/v1/chat/completions",
                      R"({"messages":[{"role":"user","content":"hi"}],)" + more + "}");
}

// All prompts of a list that is judged as a whole may be run.
void let_in(EngineScript& script, RequestId num_prompts) {
  for (RequestId id = 1; id <= num_prompts; ++id) {
    REQUIRE(script.wait_for_request(id) == id);
    CHECK(script.submitted(id).request.use == PromptUse::kJudge);
    script.deliver(id, EncodedText{});
  }
}

// As many as the number, each a text of its own.
std::string list_of(RequestId num_prompts) {
  std::string prompts;
  for (RequestId i = 0; i < num_prompts; ++i) prompts += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\"";
  return "[" + prompts + "]";
}

}  // namespace

TEST_CASE("choices: the others start when the first has its first token, each with a seed of its own") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(chat(R"("n":3,"seed":7)"));
  const RequestId first = script.wait_for_request(1);
  script.deliver(first, Accepted{.prompt_tokens = 5});
  CHECK(script.num_submitted() == 1);
  script.deliver(first, TextDelta{.text = "a", .usage = {}});
  REQUIRE(script.wait_for_request(3) == 3);
  std::set<std::string> ids;
  for (RequestId id = 1; id <= 3; ++id) {
    const GenerationRequest request = script.submitted(id).request;
    CHECK(request.sampling.seed == 6 + id);
    CHECK(request.num_choices == (id == 1 ? 3 : 0));
    CHECK(std::get<ChatPrompt>(request.prompt).messages.at(0).content == "hi");
    ids.insert(request.id);
  }
  CHECK(ids.size() == 3);
  for (const RequestId id : std::vector<RequestId>{3, 2})
    script.deliver(id, TextDelta{.text = id == 3 ? "c" : "b", .usage = {}});
  for (const RequestId id : std::vector<RequestId>{3, 1, 2})
    script.deliver(id, finished(static_cast<std::uint32_t>(id), id == 1 ? 2 : 4,
                                id == 3 ? FinishReason::kLength : FinishReason::kStop));
  const auto answer = boost::json::parse(client.read_response().body).as_object();
  const auto& choices = answer.at("choices").as_array();
  REQUIRE(choices.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(choices[i].at("index") == static_cast<std::int64_t>(i));
    CHECK(choices[i].at("message").at("content").as_string() == std::string(1, static_cast<char>('a' + i)));
    CHECK(choices[i].at("finish_reason").as_string() == (i == 2 ? "length" : "stop"));
  }
  // The prompt counts once.
  const auto& usage = answer.at("usage").as_object();
  CHECK(usage.at("prompt_tokens") == 5);
  CHECK(usage.at("completion_tokens") == 6);
  CHECK(usage.at("prompt_tokens_details").at("cached_tokens") == 2);
}

TEST_CASE("choices: streamed chunks say which answer they are of, and the stream ends with the last") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(chat(R"("n":2,"stream":true,"stream_options":{"include_usage":true})"));
  const RequestId first = script.wait_for_request(1);
  script.deliver(first, Accepted{.prompt_tokens = 5});
  script.deliver(first, TextDelta{.text = "a", .usage = {}});
  REQUIRE(script.wait_for_request(2) == 2);
  script.deliver(2, Accepted{.prompt_tokens = 5});
  script.deliver(2, TextDelta{.text = "b", .usage = {}});
  script.deliver(2, finished(1));
  script.deliver(1, TextDelta{.text = "A", .usage = {}});
  script.deliver(1, finished(2));
  const auto data = sse_data(client.read_response().body);
  std::string seen;
  for (const auto& each : data) {
    if (each == "[DONE]") {
      seen += "done";
      continue;
    }
    const auto chunk = boost::json::parse(each).as_object();
    if (chunk.at("choices").as_array().empty()) {
      CHECK(chunk.at("usage").at("completion_tokens") == 3);
      CHECK(chunk.at("usage").at("prompt_tokens") == 5);
      seen += "usage ";
      continue;
    }
    const auto& choice = chunk.at("choices").at(0).as_object();
    seen += std::to_string(choice.at("index").as_int64());
    const auto& delta = choice.at("delta").as_object();
    if (delta.contains("role")) seen += "role";
    if (delta.contains("content")) seen += std::string(delta.at("content").as_string());
    if (!choice.at("finish_reason").is_null()) seen += "stop";
    seen += " ";
  }
  CHECK(seen == "0role 1role 0a 1b 1stop 0A 0stop usage done");
}

TEST_CASE("choices: each prompt of a list has n answers, in its order, and counts once") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(post_request("/v1/completions", R"({"prompt":["x","y"],"n":2,"max_tokens":4})"));
  REQUIRE(script.wait_for_request(2) == 2);
  CHECK(std::get<TextPrompt>(script.submitted(1).request.prompt).text == "x");
  CHECK(std::get<TextPrompt>(script.submitted(2).request.prompt).text == "y");
  script.deliver(2, TextDelta{.text = "y0", .usage = {}});
  REQUIRE(script.wait_for_request(3) == 3);
  CHECK(std::get<TextPrompt>(script.submitted(3).request.prompt).text == "y");
  script.deliver(1, TextDelta{.text = "x0", .usage = {}});
  REQUIRE(script.wait_for_request(4) == 4);
  CHECK(std::get<TextPrompt>(script.submitted(4).request.prompt).text == "x");
  script.deliver(3, TextDelta{.text = "y1", .usage = {}});
  script.deliver(4, TextDelta{.text = "x1", .usage = {}});
  for (RequestId id = 1; id <= 4; ++id) script.deliver(id, finished(1));
  const auto answer = boost::json::parse(client.read_response().body).as_object();
  std::string texts;
  for (const auto& choice : answer.at("choices").as_array())
    texts += std::string(choice.at("text").as_string()) + " ";
  CHECK(texts == "x0 x1 y0 y1 ");
  CHECK(answer.at("usage").at("prompt_tokens") == 10);
  CHECK(answer.at("usage").at("completion_tokens") == 4);
}

TEST_CASE("choices: of best_of answers to each prompt the n most likely are given, and all are counted") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(post_request("/v1/completions", R"({"prompt":["x","y"],"best_of":3,"n":2,"max_tokens":4})"));
  REQUIRE(script.wait_for_request(2) == 2);
  for (const RequestId id : std::vector<RequestId>{1, 2})
    script.deliver(id, TextDelta{.text = id == 1 ? "x0" : "y0", .usage = {}});
  REQUIRE(script.wait_for_request(6) == 6);
  const std::vector<double> likely = {-2.0, -1.5, -3.0, -1.0, -1.5, -0.5};
  std::array<int, 2> numbers = {0, 0};
  for (RequestId id = 1; id <= 6; ++id) {
    const GenerationRequest request = script.submitted(id).request;
    CHECK(request.is_ranked);
    CHECK_FALSE(request.sampling.wants_logprobs());
    const std::string prompt = std::get<TextPrompt>(request.prompt).text;
    const std::string text = prompt + std::to_string(numbers.at(prompt == "y")++);
    if (id > 2) script.deliver(id, TextDelta{.text = text, .usage = {}});
  }
  for (RequestId id = 1; id <= 6; ++id) {
    Finished end = finished(1);
    end.mean_logprob = likely[id - 1];
    script.deliver(id, end);
  }
  const auto answer = boost::json::parse(client.read_response().body).as_object();
  std::string texts;
  for (const auto& choice : answer.at("choices").as_array())
    texts += std::to_string(choice.at("index").as_int64()) + std::string(choice.at("text").as_string()) + " ";
  CHECK(texts == "0x2 1x0 2y2 3y0 ");
  CHECK(answer.at("usage").at("completion_tokens") == 6);
}

TEST_CASE("choices: what a search finds are the choices of its prompt, the best first") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(post_request(
      "/v1/completions", R"({"prompt":["x","y"],"use_beam_search":true,"best_of":4,"n":2,"max_tokens":4})"));
  REQUIRE(script.wait_for_request(2) == 2);
  for (const RequestId id : std::vector<RequestId>{1, 2}) {
    const GenerationRequest request = script.submitted(id).request;
    REQUIRE(request.beams);
    CHECK(request.beams->width == 4);
    const std::string prompt = std::get<TextPrompt>(request.prompt).text;
    Finished cut = finished(4);
    cut.reason = FinishReason::kLength;
    Finished end = finished(7);
    end.found = std::make_shared<const std::vector<FoundAnswer>>(std::vector<FoundAnswer>{
        {.text = prompt + "-best", .finished = finished(3)}, {.text = prompt + "-second", .finished = cut}});
    script.deliver(id, end);
  }
  const auto answer = boost::json::parse(client.read_response().body).as_object();
  std::string texts;
  for (const auto& choice : answer.at("choices").as_array())
    texts += std::to_string(choice.at("index").as_int64()) + std::string(choice.at("text").as_string()) +
             " " + std::string(choice.at("finish_reason").as_string()) + " ";
  CHECK(texts == "0x-best stop 1x-second length 2y-best stop 3y-second length ");
  CHECK(answer.at("usage").at("completion_tokens") == 14);
}

TEST_CASE(
    "choices: of many bound answers as many run as may be at once, and the next has the place of one that "
    "ended") {
  constexpr RequestId kNumPrompts = 34;
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  const auto body = [&](const std::string& more) {
    return post_request("/v1/completions",
                        "{\"prompt\":" + list_of(kNumPrompts) + ",\"max_tokens\":4" + more + "}");
  };
  client.send(body(R"(,"regex":"[a-z]*")"));
  REQUIRE(script.wait_for_request(kMostBoundAnswers) == kMostBoundAnswers);
  CHECK(script.num_submitted() == kMostBoundAnswers);
  let_in(script, kNumPrompts);
  REQUIRE(script.wait_for_request(kNumPrompts + kMostBoundAnswers) == kNumPrompts + kMostBoundAnswers);
  for (const RequestId ends : std::vector<RequestId>{kNumPrompts + 7, kNumPrompts + 3}) {
    Finished end = finished(1);
    end.form_place = std::make_shared<const RequestId>(ends);
    const std::weak_ptr<const void> place = end.form_place;
    const std::size_t num_before = script.num_submitted();
    script.deliver(ends, std::move(end));
    REQUIRE(script.wait_for_request(num_before + 1) == num_before + 1);
    CHECK(script.num_submitted() == num_before + 1);
    const GenerationRequest next = script.submitted(num_before + 1).request;
    CHECK(next.form_place == place.lock());
    CHECK(next.leaves_form_place);
    CHECK(next.is_judged);
    CHECK(next.form);
    CHECK(std::get<TextPrompt>(next.prompt).text == std::to_string(num_before - kNumPrompts));
  }
  for (RequestId id = 1; id <= kNumPrompts; ++id)
    if (id != 7 && id != 3) script.deliver(kNumPrompts + id, finished(1));
  const auto answer = boost::json::parse(client.read_response().body).as_object();
  CHECK(answer.at("choices").as_array().size() == kNumPrompts);
  client.send(body(""));
  CHECK(script.wait_for_request(3 * kNumPrompts) == 3 * kNumPrompts);  // bound to no form: all at once
  CHECK(script.submitted(3 * kNumPrompts).request.use == PromptUse::kRun);
}

TEST_CASE("choices: where one prompt of many bound answers is refused, none is run") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(
      post_request("/v1/completions", R"({"regex":"[a-z]*","stream":true,"prompt":)" + list_of(40) + "}"));
  REQUIRE(script.wait_for_request(kMostBoundAnswers) == kMostBoundAnswers);
  for (RequestId id = 1; id <= 8; ++id) script.deliver(id, EncodedText{});
  REQUIRE(script.wait_for_request(40) == 40);
  script.deliver(40, Failed{{.kind = ApiErrorKind::kRateLimited, .message = "too much"}});
  CHECK(client.read_response().status == 429);
  CHECK(script.wait_until_cancelled(9));
  CHECK(script.num_submitted() == 40);
  for (RequestId id = 1; id <= 40; ++id) CHECK(script.submitted(id).request.use == PromptUse::kJudge);
}

TEST_CASE("choices: of a strict tool that may not be called all answers run at once") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(chat(R"("n":40,"tool_choice":"none","tools":[{"type":"function","function":)"
                   R"({"name":"f","strict":true,"parameters":{"type":"object","properties":{},)"
                   R"("additionalProperties":false}}}])"));
  script.deliver(script.wait_for_request(1), TextDelta{.text = "a", .usage = {}});
  CHECK(script.wait_for_request(40) == 40);
}

TEST_CASE("choices: answers that have not begun are not, where one fails") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(chat(R"("n":40,"response_format":{"type":"json_object"})"));
  let_in(script, 1);
  script.deliver(script.wait_for_request(2), TextDelta{.text = "a", .usage = {}});
  constexpr RequestId kLast = 1 + kMostBoundAnswers;
  REQUIRE(script.wait_for_request(kLast) == kLast);
  script.deliver(3, Failed{{.kind = ApiErrorKind::kInternal, .message = "lost"}});
  CHECK(client.read_response().status == 500);
  CHECK(script.wait_until_cancelled(kLast));
  CHECK(script.num_submitted() == kLast);
}

TEST_CASE("choices: one that fails fails the request, and the others are cancelled") {
  RunningServer server;
  EngineScript& script = server.script();
  TestClient client(server.port());
  client.send(chat(R"("n":2)"));
  script.deliver(script.wait_for_request(1), TextDelta{.text = "a", .usage = {}});
  REQUIRE(script.wait_for_request(2) == 2);
  script.deliver(2, Failed{{.kind = ApiErrorKind::kOverloaded, .message = "full"}});
  CHECK(client.read_response().status == 429);
  CHECK(script.wait_until_cancelled(1));
}

TEST_CASE("choices: a client that leaves takes all of its answers with it") {
  RunningServer server;
  EngineScript& script = server.script();
  {
    TestClient client(server.port());
    client.send(chat(R"("n":2,"stream":true)"));
    script.deliver(script.wait_for_request(1), TextDelta{.text = "a", .usage = {}});
    REQUIRE(script.wait_for_request(2) == 2);
  }
  CHECK(script.wait_until_cancelled(1));
  CHECK(script.wait_until_cancelled(2));
}
