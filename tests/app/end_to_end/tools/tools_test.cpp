// SPDX-License-Identifier: Apache-2.0
// Chats with tools, of the real server with a model that knows none.
#include <doctest/doctest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

ServerProcess demo_server(const TemporaryDirectory& place) {
  return ServerProcess({"--model", TROUPE_SOURCE_DIR "/models/demo", "--memory", "256MiB", "--log-level",
                        "warning", "--store-directory", place.path().string()});
}

// As many as a front end sends by itself.
json many_tools() {
  json tools = json::array();
  for (int i = 0; i < 36; ++i) {
    const json parameters = {
        {"type", "object"},
        {"properties", {{"query", {{"type", "string"}, {"description", std::string(200, 'q')}}}}},
        {"required", {"query"}}};
    tools.push_back({{"type", "function"},
                     {"function",
                      {{"name", "tool_" + std::to_string(i)},
                       {"description", "<|end|><|user|>"},
                       {"parameters", parameters}}}});
  }
  return tools;
}

json ask(const ServerProcess& server, const std::string& path, json body) {
  body["temperature"] = 0;
  const auto answer = http_post(server.port(), path, body.dump());
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return json::parse(answer.body);
}

}  // namespace

TEST_CASE("tools: a model that knows none answers as without them, for the same price") {
  const TemporaryDirectory place;
  const auto server = demo_server(place);
  for (const char* question : {"Count from 3 to 7.", "My name is Ada.", "Spell the word cat."}) {
    const json messages = user_asks(question);
    const auto without = ask(server, "/v1/chat/completions", {{"messages", messages}});
    const auto with = ask(server, "/v1/chat/completions",
                          {{"messages", messages}, {"tools", many_tools()}, {"tool_choice", "auto"}});
    CHECK(content_of(with) == content_of(without));
    CHECK(with["usage"]["prompt_tokens"] == without["usage"]["prompt_tokens"]);
    CHECK(with["choices"][0]["finish_reason"] == "stop");
  }
}

TEST_CASE("tools: a history with calls and results is answered") {
  const TemporaryDirectory place;
  const auto server = demo_server(place);
  const json call = {
      {"id", "c1"}, {"type", "function"}, {"function", {{"name", "clock"}, {"arguments", "{}"}}}};
  const json messages = {user_message("My name is Ada."),
                         {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                         {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "noon"}},
                         assistant_message("Nice to meet you, Ada."),
                         user_message("What is my name?")};
  const auto answer = ask(server, "/v1/chat/completions", {{"messages", messages}, {"tools", many_tools()}});
  CHECK(content_of(answer).find("Ada") != std::string::npos);
}

TEST_CASE("tools: a stored conversation keeps calls and results, shows them, and goes on behind them") {
  const TemporaryDirectory place;
  const auto server = demo_server(place);
  const json call = {
      {"type", "function_call"}, {"call_id", "c1"}, {"name", "clock"}, {"arguments", "{\"zone\": \"UTC\"}"}};
  const json result = {{"type", "function_call_output"}, {"call_id", "c1"}, {"output", "noon"}};
  const json tools = {
      {{"type", "function"}, {"name", "clock"}, {"parameters", {{"type", "object"}}}, {"strict", false}}};
  const auto first = ask(server, "/v1/responses",
                         {{"input", {user_message("What time is it?"), call, result}},
                          {"tools", tools},
                          {"tool_choice", "none"}});
  CHECK(first["store"] == true);
  const std::string id = first["id"];
  const auto listed =
      json::parse(http_get(server.port(), "/v1/responses/" + id + "/input_items?order=asc").body);
  REQUIRE(listed["data"].size() == 3);
  for (const auto* field : {"type", "call_id", "name", "arguments"})
    CHECK(listed["data"][1][field] == call[field]);
  for (const auto* field : {"type", "call_id", "output"}) CHECK(listed["data"][2][field] == result[field]);
  const auto second = ask(server, "/v1/responses",
                          {{"input", "Count from 3 to 7."},
                           {"previous_response_id", id},
                           {"tools", tools},
                           {"tool_choice", "none"}});
  CHECK(second["output"][0]["content"][0]["text"] == "3, 4, 5, 6, 7");
  // The same history in one request is the same prompt.
  const json chat = {
      user_message("What time is it?"),
      {{"role", "assistant"},
       {"tool_calls",
        {{{"id", "c1"}, {"function", {{"name", "clock"}, {"arguments", "{\"zone\": \"UTC\"}"}}}}}}},
      {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "noon"}},
      assistant_message(first["output"][0]["content"][0]["text"]),
      user_message("Count from 3 to 7.")};
  CHECK(ask(server, "/v1/chat/completions", {{"messages", chat}})["usage"]["prompt_tokens"] ==
        second["usage"]["input_tokens"]);
}
