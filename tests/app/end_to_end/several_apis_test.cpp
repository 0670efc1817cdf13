// SPDX-License-Identifier: Apache-2.0
// The real server through its several APIs: the same answer, the same counts.
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/http/chat.hpp"
#include "tests/support/http/free_port.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

ServerProcess demo_server() {
  return ServerProcess(
      {"--model", TROUPE_SOURCE_DIR "/models/demo", "--memory", "256MiB", "--log-level", "warning"});
}

json ask(std::uint16_t port, const std::string& path, const json& body) {
  const auto answer = http_post(port, path, body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return json::parse(answer.body);
}
json ask(const ServerProcess& server, const std::string& path, const json& body) {
  return ask(server.port(), path, body);
}

}  // namespace

TEST_CASE("several APIs: a message is the chat's answer, and tells what the cache had of the prompt") {
  const auto server = demo_server();
  const json body = {{"messages", user_asks("Count from 3 to 20.")}, {"max_tokens", 200}, {"temperature", 0}};
  const auto message = ask(server, "/v1/messages", body);
  const auto again = ask(server, "/v1/messages", body);
  const auto chat = ask(server, "/v1/chat/completions", body);
  CHECK(message["content"] == json::array({{{"type", "text"}, {"text", content_of(chat)}}}));
  CHECK(message["stop_reason"] == "end_turn");
  CHECK(again["content"] == message["content"]);
  const int num_prompt = chat["usage"]["prompt_tokens"];
  CHECK(message["usage"]["input_tokens"] == num_prompt);
  CHECK(message["usage"]["cache_read_input_tokens"] == 0);
  CHECK(again["usage"]["cache_read_input_tokens"] == num_prompt - 1);
  CHECK(again["usage"]["input_tokens"] == 1);
  CHECK(message["usage"]["output_tokens"] == chat["usage"]["completion_tokens"]);
}

TEST_CASE("several APIs: Ollama's port gives the chat's answer, whole and in lines, with true times") {
  const auto ollama_port = free_port();
  const ServerProcess server({"--model", TROUPE_SOURCE_DIR "/models/demo", "--memory", "256MiB",
                              "--log-level", "warning", "--ollama-port", std::to_string(ollama_port)});
  const json messages = user_asks("Count from 3 to 20.");
  const auto chat = ask(server, "/v1/chat/completions", {{"messages", messages}, {"temperature", 0}});
  json body = {{"model", "demo:latest"}, {"messages", messages}, {"options", {{"temperature", 0}}}};
  const auto streamed = http_post(ollama_port, "/api/chat", body.dump());
  CHECK(streamed.status == 200);
  std::string text;
  json last;
  std::istringstream lines(streamed.body);
  for (std::string line; std::getline(lines, line);) {
    last = json::parse(line);
    text += last["message"]["content"].get<std::string>();
  }
  CHECK(text == content_of(chat));
  body["stream"] = false;
  const auto whole = ask(ollama_port, "/api/chat", body);
  CHECK(whole["message"]["content"] == text);
  CHECK(ask(ollama_port, "/api/generate",
            {{"prompt", "Count from 3 to 20."},
             {"stream", false},
             {"options", {{"temperature", 0}}}})["response"] == text);
  for (const json& end : {last, whole}) {
    CHECK(end["done_reason"] == "stop");
    CHECK(end["prompt_eval_count"] == chat["usage"]["prompt_tokens"]);
    CHECK(end["eval_count"] == chat["usage"]["completion_tokens"]);
    CHECK(end["eval_duration"] > 0);
    CHECK(end["prompt_eval_duration"] > 0);
    CHECK(end["total_duration"] >=
          end["eval_duration"].get<std::int64_t>() + end["prompt_eval_duration"].get<std::int64_t>());
  }
  const auto tags = json::parse(http_get(ollama_port, "/api/tags").body)["models"];
  REQUIRE(tags.size() == 1);
  CHECK(tags[0]["name"] == "demo:latest");
  CHECK(tags[0]["details"]["family"] == "llama");
  CHECK(tags[0]["size"] > 1'000'000);
  CHECK(http_get(server.port(), "/api/tags").status == 404);
}

TEST_CASE("several APIs: tokens are counted as the answer's usage counts them") {
  const auto server = demo_server();
  const json messages = user_asks("My name is Ada.");
  const auto chat = ask(server, "/v1/chat/completions", {{"messages", messages}, {"max_tokens", 1}});
  const auto tokens = ask(server, "/tokenize", {{"messages", messages}});
  CHECK(tokens["count"] == chat["usage"]["prompt_tokens"]);
  CHECK(tokens["tokens"].size() == tokens["count"]);
  CHECK(ask(server, "/v1/messages/count_tokens", {{"messages", messages}})["input_tokens"] ==
        tokens["count"]);
  const auto text = ask(server, "/detokenize", {{"tokens", tokens["tokens"]}});
  CHECK(text["prompt"].get<std::string>().find("My name is Ada.") != std::string::npos);
  const auto plain = ask(server, "/tokenize", {{"prompt", "My name is Ada."}});
  CHECK(ask(server, "/detokenize", {{"tokens", plain["tokens"]}})["prompt"] == "My name is Ada.");
}

TEST_CASE("several APIs: each of n answers is the one that its seed gives alone") {
  const auto server = demo_server();
  json body = {
      {"messages", user_asks("Tell me a story.")}, {"max_tokens", 40}, {"temperature", 1.5}, {"seed", 5}};
  std::set<std::string> alone;
  for (int i = 0; i < 4; ++i) {
    body["seed"] = 5 + i;
    alone.insert(content_of(ask(server, "/v1/chat/completions", body)));
  }
  body["seed"] = 5;
  body["n"] = 4;
  std::set<std::string> together;
  const auto answer = ask(server, "/v1/chat/completions", body);
  for (const auto& choice : answer["choices"])
    together.insert(choice["message"]["content"].get<std::string>());
  CHECK(alone.size() > 1);
  CHECK(together == alone);
}

TEST_CASE("several APIs: max_tokens beyond the context is all there is room for") {
  const auto server = demo_server();
  for (const int max_tokens : {-1, 2048, 100000}) {
    const json body = {
        {"messages", user_asks("Spell the word cat.")}, {"max_tokens", max_tokens}, {"temperature", 0}};
    const auto chat = ask(server, "/v1/chat/completions", body);
    CHECK(content_of(chat) == "c-a-t");
    CHECK(chat["choices"][0]["finish_reason"] == "stop");
  }
  const json endless = {{"prompt", "a"}, {"max_tokens", 5000}, {"ignore_eos", true}, {"temperature", 0}};
  const auto filled = ask(server, "/v1/completions", endless);
  CHECK(filled["choices"][0]["finish_reason"] == "length");
  CHECK(filled["usage"]["total_tokens"] == 2048);
}
