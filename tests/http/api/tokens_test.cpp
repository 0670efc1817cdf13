// SPDX-License-Identifier: Apache-2.0
// /tokenize and /detokenize: bodies, and answers of a scripted engine.
#include "http/api/answers/token_json.hpp"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>

#include "tests/http/running_server.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

ApiTokenRequest accepted(const std::string& body) {
  const auto parsed = parse_tokenize_request(body, demo_models(), Limits{});
  const auto* error = std::get_if<ApiError>(&parsed);
  INFO(body, " -> ", error == nullptr ? "" : error->message);
  REQUIRE(error == nullptr);
  return std::get<ApiTokenRequest>(parsed);
}
std::string wrong_field(const std::string& body) {
  const auto parsed = parse_tokenize_request(body, demo_models(), Limits{});
  CAPTURE(body);
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed).field.value_or("");
}
std::string wrong_detokenize_field(const std::string& body) {
  const auto parsed = parse_detokenize_request(body, demo_models(), Limits{});
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed).field.value_or("");
}

TestResponse answer_to(RunningServer& server, std::string_view path, std::string_view body,
                       ResponseEvent event) {
  TestClient client(server.port());
  client.send(post_request(path, body));
  server.script().deliver(server.script().wait_for_request(1), std::move(event));
  return client.read_response();
}

}  // namespace

TEST_CASE("tokens: a text or a chat may be asked for, of any model") {
  const auto text = accepted(R"({"prompt":"hi","add_special_tokens":false,"return_token_strs":true})");
  CHECK(text.generation.use == PromptUse::kEncode);
  CHECK(text.generation.wants_token_texts);
  CHECK(std::get<TextPrompt>(text.generation.prompt).text == "hi");
  CHECK_FALSE(std::get<TextPrompt>(text.generation.prompt).adds_special_tokens);
  CHECK_FALSE(std::get<TextPrompt>(text.generation.prompt).reads_special_tokens);
  CHECK(std::get<TextPrompt>(accepted(R"({"prompt":""})").generation.prompt).adds_special_tokens);
  CHECK(accepted(R"({"model":"minilm","prompt":"hi"})").generation.model == 1);
  const auto chat =
      accepted(R"({"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false})");
  CHECK(std::get<ChatPrompt>(chat.generation.prompt).messages.at(0).content == "hi");
  CHECK_FALSE(std::get<ChatPrompt>(chat.generation.prompt).add_generation_prompt);
}

TEST_CASE("tokens: what is wrong is named") {
  CHECK(wrong_field("{}") == "prompt");
  CHECK(wrong_field(R"({"prompt":"a","messages":[]})") == "prompt");
  CHECK(wrong_field(R"({"prompt":7})") == "prompt");
  CHECK(wrong_field(R"({"prompt":"a","return_token_strs":1})") == "return_token_strs");
  CHECK(wrong_field(R"({"prompt":"a","model":"none"})") == "model");
  CHECK(wrong_field(R"({"messages":[{"role":"user","content":"a"}],"add_special_tokens":true})") ==
        "add_special_tokens");
  CHECK(wrong_field(R"({"messages":[{"role":"user","content":"a"}],"chat_template":"x"})") ==
        "chat_template");
  CHECK(wrong_detokenize_field("{}") == "tokens");
  CHECK(wrong_detokenize_field(R"({"tokens":"a"})") == "tokens");
  CHECK(wrong_detokenize_field(R"({"tokens":[1,-1]})") == "tokens");
  std::string many = "1";
  for (int i = 0; i < 16'384; ++i) many += ",1";
  CHECK(wrong_detokenize_field("{\"tokens\":[" + many + "]}") == "tokens");
}

TEST_CASE("tokens: answers have vLLM's shapes") {
  {
    RunningServer server;
    const auto response = answer_to(server, "/tokenize", R"({"prompt":"hi"})",
                                    EncodedText{.text = {}, .tokens = {5, 6}, .token_texts = {}});
    CHECK(response.status == 200);
    CHECK(response.body == R"({"count":2,"max_model_len":2048,"tokens":[5,6],"token_strs":null})");
  }
  {
    RunningServer server;
    const auto response = answer_to(server, "/tokenize", R"({"prompt":"hi","return_token_strs":true})",
                                    EncodedText{.text = {}, .tokens = {5, 6}, .token_texts = {"h", "\"i"}});
    CHECK(response.body == R"({"count":2,"max_model_len":2048,"tokens":[5,6],"token_strs":["h","\"i"]})");
  }
  {
    RunningServer server;
    const auto response = answer_to(server, "/detokenize", R"({"tokens":[5,6]})",
                                    EncodedText{.text = "a\nb", .tokens = {}, .token_texts = {}});
    CHECK(response.body == R"({"prompt":"a\nb"})");
  }
  {
    RunningServer server;
    const auto response = answer_to(server, "/detokenize", R"({"tokens":[5]})",
                                    Failed{{.kind = ApiErrorKind::kInvalidRequest, .message = "no"}});
    CHECK(response.status == 400);
  }
}

TEST_CASE("tokens: with keys a key is needed") {
  RunningServer server([](ServerOptions& options) { options.api_keys = {{"default", "secret"}}; });
  TestClient client(server.port());
  client.send(post_request("/tokenize", R"({"prompt":"hi"})"));
  CHECK(client.read_response().status == 401);
}
