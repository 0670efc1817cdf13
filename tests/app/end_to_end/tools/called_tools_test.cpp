// SPDX-License-Identifier: Apache-2.0
// Calls of tools and reasoning through Anthropic's messages and OpenAI's responses, of
// the real server with a model that is known to write them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/end_to_end/scripted_model.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

// The user's word is the cue; behind a result the model says whether it was shown what it had thought.
const std::string kCalls =
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% if m.tool_calls %}[CALLS]["
    "{% for c in m.tool_calls %}{{ c.function | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}]"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{% set last = messages[-1] %}"
    "{% if last.role == 'tool' %}"
    "{{ '<|knows|>' if messages[-2].reasoning_content == 'How odd.' else '<|answer|>' }}"
    "{% elif last.content == 'one' %}<|one|>{% else %}<|hello|>{% endif %}{% endif %}";
const std::string kThinks = "{# </think> #}";

const std::vector<CuedAnswer> kAnswers = {
    {"<|one|>",
     {{"<think>\nHow odd.\n</think>\n\nI look."},
      {"[CALLS]", true},
      {"[{\"name\": \"clock\", \"arguments\": {\"zone\": \"Europe/Rome\", \"n\": 1}}]"}}},
    {"<|hello|>", {{"Hello there."}}},
    {"<|answer|>", {{"It is noon."}}},
    {"<|knows|>", {{"Quite right, noon."}}}};

const json kArguments = {{"zone", "Europe/Rome"}, {"n", 1}};

// A template that knows no tools.
constexpr const char* kPlainTemplate =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|done|>' if 'patched' in messages[-1].content else '<|two|>' }}"
    "{% endif %}";
const std::vector<CuedAnswer> kPlainAnswers = {
    {"<|two|>",
     {{"<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"a\\nb\"}}\n</tool_call>\n"
       "<tool_call>\n{\"name\": \"maps__find\", \"arguments\": {\"city\":\"Rome\"}}\n</tool_call>"}}},
    {"<|done|>", {{"All done."}}}};

class ScriptedServer {
 public:
  ScriptedServer(const std::string& chat_template, const std::vector<CuedAnswer>& answers)
      : server_((write_scripted_model(directory_, chat_template, answers),
                 std::vector<std::string>{"--model", directory_.path().string(), "--memory", "256MiB",
                                          "--log-level", "warning", "--store-directory",
                                          (directory_.path() / "store").string()})) {}

  json ask(const std::string& path, const json& body) const { return json::parse(post(path, body)); }
  std::vector<json> stream(const std::string& path, json body) const {
    body["stream"] = true;
    std::vector<json> events;
    for (const auto& payload : sse_payloads(post(path, body))) events.push_back(json::parse(payload));
    return events;
  }
  json get(const std::string& path) const { return json::parse(http_get(server_.port(), path).body); }

 private:
  std::string post(const std::string& path, json body) const {
    body["temperature"] = 0;
    const auto answer = http_post(server_.port(), path, body.dump());
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    return answer.body;
  }

  troupe::TemporaryDirectory directory_;
  ServerProcess server_;
};

json message_body(json messages) {
  return {{"max_tokens", 300},
          {"messages", std::move(messages)},
          {"tools",
           {{{"name", "clock"}, {"input_schema", {{"type", "object"}, {"additionalProperties", true}}}}}}};
}

json response_body(json input) {
  return {{"input", std::move(input)},
          {"tools",
           {{{"type", "function"},
             {"name", "clock"},
             {"parameters", {{"type", "object"}, {"additionalProperties", true}}}}}}};
}

// The blocks of a streamed message, as Anthropic's clients put them together.
json joined_blocks(const std::vector<json>& events) {
  json blocks = json::array();
  std::string partial;
  for (const auto& event : events) {
    const std::string type = event["type"];
    if (type == "content_block_start") {
      REQUIRE(event["index"] == blocks.size());
      blocks.push_back(event["content_block"]);
      partial.clear();
    } else if (type == "content_block_delta") {
      REQUIRE(event["index"].get<std::size_t>() + 1 == blocks.size());
      auto& block = blocks.back();
      const auto& delta = event["delta"];
      if (delta["type"] == "text_delta")
        block["text"] = block["text"].get<std::string>() + delta["text"].get<std::string>();
      if (delta["type"] == "thinking_delta")
        block["thinking"] = block["thinking"].get<std::string>() + delta["thinking"].get<std::string>();
      if (delta["type"] == "signature_delta") block["signature"] = delta["signature"];
      if (delta["type"] == "input_json_delta") partial += delta["partial_json"].get<std::string>();
    } else if (type == "content_block_stop" && !partial.empty()) {
      blocks.back()["input"] = json::parse(partial);
    }
  }
  return blocks;
}

// Without what differs from answer to answer.
json without_ids(json items) {
  for (auto& item : items)
    for (const char* id : {"id", "call_id"})
      if (item.contains(id)) item.erase(id);
  return items;
}

}  // namespace

TEST_CASE("called tools: a message has blocks of thoughts, text and calls, whole and streamed") {
  const ScriptedServer server(kCalls + kThinks, kAnswers);
  const auto body = message_body(user_asks("one"));
  const auto message = server.ask("/v1/messages", body);
  CHECK(message["stop_reason"] == "tool_use");
  const auto& content = message["content"];
  REQUIRE(content.size() == 3);
  CHECK(content[0]["type"] == "thinking");
  CHECK(content[0]["thinking"] == "How odd.");
  CHECK(content[1] == json{{"type", "text"}, {"text", "I look."}});
  CHECK(content[2]["type"] == "tool_use");
  CHECK(content[2]["id"].get<std::string>().starts_with("toolu_"));
  CHECK(content[2]["name"] == "clock");
  CHECK(content[2]["input"] == kArguments);
  const auto events = server.stream("/v1/messages", body);
  CHECK(without_ids(joined_blocks(events)) == without_ids(content));
  CHECK(events.size() > 12);  // the arguments come as they are written
  CHECK(events[events.size() - 2]["delta"]["stop_reason"] == "tool_use");
}

TEST_CASE("called tools: the loop of messages, in which the model is shown its thoughts") {
  const ScriptedServer server(kCalls + kThinks, kAnswers);
  json messages = user_asks("one");
  const auto content = server.ask("/v1/messages", message_body(messages))["content"];
  const json result = {{"type", "tool_result"}, {"tool_use_id", content[2]["id"]}, {"content", "12:00"}};
  messages.push_back({{"role", "assistant"}, {"content", content}});
  messages.push_back({{"role", "user"}, {"content", {result}}});
  const auto answer = server.ask("/v1/messages", message_body(messages));
  CHECK(answer["stop_reason"] == "end_turn");
  CHECK(answer["content"] == json::array({{{"type", "text"}, {"text", "Quite right, noon."}}}));
  messages[1]["content"].erase(0);
  CHECK(server.ask("/v1/messages", message_body(messages))["content"][0]["text"] == "It is noon.");
}

TEST_CASE("called tools: a message without tools, or with the choice none, has no calls") {
  const ScriptedServer server(kCalls + kThinks, kAnswers);
  auto body = message_body(user_asks("one"));
  body["tool_choice"] = {{"type", "none"}};
  body["max_tokens"] = 60;
  const auto message = server.ask("/v1/messages", body);
  CHECK(message["stop_reason"] != "tool_use");
  REQUIRE(message["content"].size() == 2);
  CHECK(message["content"][1]["text"].get<std::string>().starts_with("I look."));
  body.erase("tools");
  body.erase("tool_choice");
  const auto without = server.ask("/v1/messages", body);
  CHECK(without["stop_reason"] == "end_turn");
  REQUIRE(without["content"].size() == 2);
  CHECK(without["content"][1]["text"].get<std::string>().starts_with("I look.[{\"name\""));
}

TEST_CASE("called tools: messages and responses can demand a call, which obeys its schema") {
  const ScriptedServer server(kCalls, kAnswers);
  const json schema = {{"type", "object"},
                       {"properties", {{"city", {{"enum", {"Rome", "Oslo"}}}}}},
                       {"required", {"city"}},
                       {"additionalProperties", false}};
  auto message = message_body(user_asks("hello"));
  message["tools"].push_back({{"name", "weather"}, {"input_schema", schema}});
  message["tool_choice"] = {{"type", "tool"}, {"name", "weather"}};
  const auto content = server.ask("/v1/messages", message)["content"];
  REQUIRE(content.size() == 1);
  CHECK(content[0]["name"] == "weather");
  const std::string city = content[0]["input"]["city"];
  CHECK((city == "Rome" || city == "Oslo"));
  message["tool_choice"] = {{"type", "any"}, {"disable_parallel_tool_use", true}};
  CHECK(server.ask("/v1/messages", message)["content"].size() == 1);

  auto response = response_body(user_asks("hello"));
  response["tools"].push_back({{"type", "function"}, {"name", "weather"}, {"parameters", schema}});
  response["tool_choice"] = {{"type", "function"}, {"name", "weather"}};
  const auto answer = server.ask("/v1/responses", response);
  CHECK(answer["tool_choice"] == response["tool_choice"]);
  REQUIRE(answer["output"].size() == 1);
  CHECK(answer["output"][0]["type"] == "function_call");
  CHECK(json::parse(answer["output"][0]["arguments"].get<std::string>()).contains("city"));
}

TEST_CASE("called tools: a response has items of reasoning, text and calls, whole, streamed and stored") {
  const ScriptedServer server(kCalls + kThinks, kAnswers);
  const auto response = server.ask("/v1/responses", response_body("one"));
  CHECK(response["status"] == "completed");
  const auto& output = response["output"];
  REQUIRE(output.size() == 3);
  CHECK(output[0]["type"] == "reasoning");
  CHECK(output[0]["content"][0]["text"] == "How odd.");
  CHECK(output[1]["content"][0]["text"] == "I look.");
  CHECK(output[2]["type"] == "function_call");
  CHECK(output[2]["name"] == "clock");
  CHECK(json::parse(output[2]["arguments"].get<std::string>()) == kArguments);
  CHECK(response["store"] == true);
  CHECK(server.get("/v1/responses/" + response["id"].get<std::string>())["output"] == output);

  const auto events = server.stream("/v1/responses", response_body("one"));
  std::string arguments;
  json done = json::array();
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i]["sequence_number"] == i);
    if (events[i]["type"] == "response.function_call_arguments.delta")
      arguments += events[i]["delta"].get<std::string>();
    if (events[i]["type"] == "response.output_item.done") done.push_back(events[i]["item"]);
  }
  CHECK(arguments == output[2]["arguments"].get<std::string>());
  CHECK(done == events.back()["response"]["output"]);
  CHECK(without_ids(done) == without_ids(output));
}

TEST_CASE("called tools: the loop of responses, by their items and by the id of the one before") {
  const ScriptedServer server(kCalls + kThinks, kAnswers);
  const auto first = server.ask("/v1/responses", response_body("one"));
  const json result = {
      {"type", "function_call_output"}, {"call_id", first["output"][2]["call_id"]}, {"output", "12:00"}};
  json input = user_asks("one");
  for (const auto& item : first["output"]) input.push_back(item);
  input.push_back(result);
  const auto by_items = server.ask("/v1/responses", response_body(input));
  CHECK(by_items["output"][0]["content"][0]["text"] == "Quite right, noon.");
  auto next = response_body(json::array({result}));
  next["previous_response_id"] = first["id"];
  const auto by_id = server.ask("/v1/responses", next);
  CHECK(by_id["output"][0]["content"][0]["text"] == "Quite right, noon.");
  CHECK(by_id["usage"]["input_tokens"] == by_items["usage"]["input_tokens"]);
}

TEST_CASE("called tools: a model whose template knows no tools calls custom ones and those in namespaces") {
  const ScriptedServer server(kPlainTemplate, kPlainAnswers);
  const json find = {{"type", "function"},
                     {"name", "find"},
                     {"parameters", {{"type", "object"}, {"additionalProperties", true}}}};
  const json tools = {{{"type", "custom"}, {"name", "patch"}},
                      {{"type", "namespace"}, {"name", "maps"}, {"description", "Maps."}, {"tools", {find}}}};
  const auto first = server.ask("/v1/responses", {{"input", "two"}, {"tools", tools}});
  const auto& output = first["output"];
  REQUIRE(output.size() == 2);
  CHECK(output[0]["type"] == "custom_tool_call");
  CHECK(output[0]["name"] == "patch");
  CHECK(output[0]["input"] == "a\nb");
  CHECK(output[1]["type"] == "function_call");
  CHECK(output[1]["namespace"] == "maps");
  CHECK(output[1]["name"] == "find");
  CHECK(output[1]["arguments"] == R"({"city":"Rome"})");
  CHECK(server.get("/v1/responses/" + first["id"].get<std::string>())["output"] == output);

  const json results = {
      {{"type", "custom_tool_call_output"}, {"call_id", output[0]["call_id"]}, {"output", "patched"}},
      {{"type", "function_call_output"}, {"call_id", output[1]["call_id"]}, {"output", "found"}}};
  const auto by_id = server.ask(
      "/v1/responses", {{"input", results}, {"tools", tools}, {"previous_response_id", first["id"]}});
  CHECK(by_id["output"][0]["content"][0]["text"] == "All done.");
  json input = user_asks("two");
  for (const auto& item : output) input.push_back(item);
  for (const auto& item : results) input.push_back(item);
  const auto by_items = server.ask("/v1/responses", {{"input", input}, {"tools", tools}});
  CHECK(by_items["output"][0]["content"][0]["text"] == "All done.");
  CHECK(by_id["usage"]["input_tokens"] == by_items["usage"]["input_tokens"]);
}
