// SPDX-License-Identifier: Apache-2.0
// Calls and reasoning in the answers of the real server, with a model that is known to
// write them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/end_to_end/scripted_model.hpp"
#include "tests/support/dear_pattern.hpp"
#include "tests/support/http/chat.hpp"
#include "tests/support/http/http_client.hpp"
#include "tests/support/process/server_process.hpp"

using namespace troupe::test;
using nlohmann::json;

namespace {

// The user's word is the cue. Calls are lists behind a special token, as Mistral's.
constexpr const char* kMistralTemplate =
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% if m.tool_calls %}[CALLS]["
    "{% for c in m.tool_calls %}{{ c.function | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}]"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{% set said = messages[-1].content %}"
    "{% if messages[-1].role == 'tool' %}<|answer|>{% elif said == 'one' %}<|one|>"
    "{% elif said == 'think' %}<|think|>{% else %}<|hello|>{% endif %}{% endif %}{# </think> #}";

const std::vector<CuedAnswer> kMistralAnswers = {
    {"<|one|>",
     {{"I look."},
      {"[CALLS]", true},
      {"[{\"name\": \"clock\", \"arguments\": {\"zone\": \"Europe/Rome\", \"n\": 1}}]"}}},
    {"<|hello|>", {{"Hello there."}}},
    {"<|answer|>", {{"It is noon."}}},
    {"<|think|>", {{"<think>\nHow nice.\n</think>\n\nWelcome!"}}}};

// Calls in JSON between tags of plain text, several of them.
constexpr const char* kPlainTemplate =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|broken|>' if 'broken' in messages[-1].content else '<|two|>' }}"
    "{% endif %}";
const std::vector<CuedAnswer> kPlainAnswers = {
    {"<|two|>",
     {{"<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>\n"
       "<tool_call>{\"name\":\"map\",\"arguments\":{\"city\":\"Rome\"}}</tool_call>"}}},
    {"<|broken|>", {{"<tool_call>no JSON at all</tool_call>"}}}};

json tool(const std::string& name) {
  return {
      {"type", "function"},
      {"function", {{"name", name}, {"parameters", {{"type", "object"}, {"additionalProperties", true}}}}}};
}

const json kTools = {tool("clock"), tool("map")};

class ScriptedServer {
 public:
  ScriptedServer(const std::string& chat_template, const std::vector<CuedAnswer>& answers)
      : server_((write_scripted_model(directory_, chat_template, answers),
                 std::vector<std::string>{"--model", directory_.path().string(), "--memory", "256MiB",
                                          "--log-level", "warning"})) {}

  json ask(json messages, json fields = {{"tools", kTools}}) const {
    return json::parse(post(std::move(messages), std::move(fields)));
  }

  // Answers whose calls went unbound for this reason.
  bool counted_unbound(const std::string& reason) const {
    const auto metrics = http_get(server_.port(), "/metrics").body;
    const auto at = metrics.find("reason=\"" + reason + "\"", metrics.find("\ntroupe_calls_unbound_total"));
    return metrics.compare(metrics.find(' ', at), 3, " 1\n") == 0;
  }
  int status_of(json messages, json fields) const {
    fields["messages"] = std::move(messages);
    return http_post(server_.port(), "/v1/chat/completions", fields.dump()).status;
  }

  // The chunks of a stream, without the role's and [DONE].
  std::vector<json> stream(json messages, json fields = {{"tools", kTools}}) const {
    fields["stream"] = true;
    std::vector<json> chunks;
    for (const auto& payload : sse_payloads(post(std::move(messages), std::move(fields))))
      if (payload != "[DONE]") chunks.push_back(json::parse(payload)["choices"][0]);
    REQUIRE(!chunks.empty());
    chunks.erase(chunks.begin());
    return chunks;
  }

 private:
  std::string post(json messages, json fields) const {
    fields["messages"] = std::move(messages);
    fields["temperature"] = 0;
    const auto answer = http_post(server_.port(), "/v1/chat/completions", fields.dump());
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    return answer.body;
  }

  troupe::TemporaryDirectory directory_;
  ServerProcess server_;
};

// As clients join them: strings behind strings, by index.
json joined_calls(const std::vector<json>& chunks) {
  json calls = json::array();
  for (const auto& chunk : chunks) {
    for (const auto& piece : chunk["delta"].value("tool_calls", json::array())) {
      const std::size_t index = piece["index"];
      if (index == calls.size()) {
        CHECK(piece["type"] == "function");
        calls.push_back({{"id", piece["id"]}, {"type", "function"}, {"function", piece["function"]}});
      } else {
        REQUIRE(index + 1 == calls.size());
        CHECK_FALSE(piece.contains("id"));
        CHECK_FALSE(piece["function"].contains("name"));
        calls[index]["function"]["arguments"] = calls[index]["function"]["arguments"].get<std::string>() +
                                                piece["function"]["arguments"].get<std::string>();
      }
    }
  }
  return calls;
}

std::string joined(const std::vector<json>& chunks, const char* member) {
  std::string text;
  for (const auto& chunk : chunks) text += chunk["delta"].value(member, "");
  return text;
}

}  // namespace

TEST_CASE("tool calls: a call is told from the text in front of it, whole and streamed") {
  const ScriptedServer server(kMistralTemplate, kMistralAnswers);
  const auto choice = server.ask(user_asks("one"))["choices"][0];
  CHECK(choice["finish_reason"] == "tool_calls");
  const auto& message = choice["message"];
  CHECK(message["content"] == "I look.");
  REQUIRE(message["tool_calls"].size() == 1);
  const auto& call = message["tool_calls"][0];
  CHECK(call["type"] == "function");
  CHECK(call["id"].get<std::string>().starts_with("call_"));
  CHECK(call["function"]["name"] == "clock");
  CHECK(call["function"]["arguments"] == R"({"zone": "Europe/Rome", "n": 1})");

  const auto chunks = server.stream(user_asks("one"));
  CHECK(joined(chunks, "content") == "I look.");
  const auto calls = joined_calls(chunks);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0]["function"] == call["function"]);
  CHECK(calls[0]["id"] != call["id"]);
  CHECK(chunks.back()["finish_reason"] == "tool_calls");
  CHECK(chunks.size() > 5);  // the arguments come as they are written
}

TEST_CASE("tool calls: the loop of call, result and answer") {
  const ScriptedServer server(kMistralTemplate, kMistralAnswers);
  json messages = user_asks("one");
  messages.push_back(server.ask(messages)["choices"][0]["message"]);
  messages.push_back(
      {{"role", "tool"}, {"tool_call_id", messages[1]["tool_calls"][0]["id"]}, {"content", "12:00"}});
  const auto choice = server.ask(messages)["choices"][0];
  CHECK(choice["finish_reason"] == "stop");
  CHECK(choice["message"]["content"] == "It is noon.");
  CHECK_FALSE(choice["message"].contains("tool_calls"));
}

TEST_CASE("tool calls: without tools, or with the choice none, an answer is text") {
  const ScriptedServer server(kMistralTemplate, kMistralAnswers);
  const auto choice = server.ask(user_asks("one"), json::object())["choices"][0];
  CHECK(choice["finish_reason"] == "stop");
  CHECK_FALSE(choice["message"].contains("tool_calls"));
  CHECK(choice["message"]["content"].get<std::string>().starts_with("I look.[{\"name\""));
  // The tools stay in the prompt, but the token that begins a call can't be drawn.
  const auto called = server.ask(user_asks("one"));
  const auto none =
      server.ask(user_asks("one"), {{"tools", kTools}, {"tool_choice", "none"}, {"max_tokens", 30}});
  CHECK(none["usage"]["prompt_tokens"] == called["usage"]["prompt_tokens"]);
  CHECK_FALSE(none["choices"][0]["message"].contains("tool_calls"));
  const std::string content = none["choices"][0]["message"]["content"];
  CHECK(content.starts_with("I look."));
  CHECK(content.find("[{\"name\"") == std::string::npos);
  const auto hello = server.ask(user_asks("hello"))["choices"][0];
  CHECK(hello["message"]["content"] == "Hello there.");
  CHECK(hello["finish_reason"] == "stop");
}

TEST_CASE("tool calls: several calls have indexes, and parallel_tool_calls false keeps the first") {
  const ScriptedServer server(kPlainTemplate, kPlainAnswers);
  json fields = {{"tools", kTools}, {"min_tokens", 1}};  // not bound: calls come in any spelling
  const auto whole = server.ask(user_asks("two"), fields);
  const auto& message = whole["choices"][0]["message"];
  CHECK(message["content"].is_null());
  REQUIRE(message["tool_calls"].size() == 2);
  CHECK(message["tool_calls"][0]["function"]["arguments"] == "{}");
  CHECK(message["tool_calls"][1]["function"] == json{{"name", "map"}, {"arguments", R"({"city":"Rome"})"}});
  CHECK(message["tool_calls"][0]["id"] != message["tool_calls"][1]["id"]);
  const auto calls = joined_calls(server.stream(user_asks("two"), fields));
  REQUIRE(calls.size() == 2);
  CHECK(calls[1]["function"] == message["tool_calls"][1]["function"]);

  fields["parallel_tool_calls"] = false;
  const auto first = server.ask(user_asks("two"), fields);
  CHECK(first["choices"][0]["message"]["tool_calls"].size() == 1);
  CHECK(first["choices"][0]["finish_reason"] == "tool_calls");
  CHECK(first["usage"]["completion_tokens"] < whole["usage"]["completion_tokens"]);
}

TEST_CASE("tool calls: of an answer that is not bound, what only looks like a call is content") {
  const ScriptedServer server(kPlainTemplate, kPlainAnswers);
  const auto choice = server.ask(user_asks("broken"), {{"tools", kTools}, {"min_tokens", 1}})["choices"][0];
  CHECK(choice["message"]["content"] == "<tool_call>no JSON at all</tool_call>");
  CHECK(choice["finish_reason"] == "stop");
}

TEST_CASE("tool calls: an answer with stop tokens of its own is bound as others are") {
  const ScriptedServer server(kPlainTemplate, kPlainAnswers);
  const json fields = {{"tools", kTools}, {"stop_token_ids", {3}}, {"max_tokens", 60}};
  const auto message = server.ask(user_asks("broken"), fields)["choices"][0]["message"];
  CHECK(message["content"].get<std::string>().find("<tool_call>") == std::string::npos);
}

TEST_CASE(
    "tool calls: where a mask is too dear the call goes on unbound and is counted, a strict one fails") {
  const json parameters = {{"type", "object"},
                           {"properties", {{"a", {{"type", "string"}, {"pattern", dear_pattern()}}}}},
                           {"required", {"a"}},
                           {"additionalProperties", false}};
  const ScriptedServer server(kPlainTemplate, {{"<|two|>",
                                                {{"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"" +
                                                  std::string(200, 'a') + "\"}}\n</tool_call>"}}},
                                               {"<|broken|>", {{"No."}}}});
  json tool = {{"type", "function"}, {"function", {{"name", "f"}, {"parameters", parameters}}}};
  CHECK(!server.counted_unbound("mask"));
  const auto choice = server.ask(user_asks("two"), {{"tools", {tool}}, {"max_tokens", 300}})["choices"][0];
  CHECK(choice["finish_reason"] == "tool_calls");
  REQUIRE(choice["message"]["tool_calls"].size() == 1);
  CHECK(choice["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>().find("b") ==
        std::string::npos);  // which the schema demands
  CHECK(server.counted_unbound("mask"));
  tool["function"]["strict"] = true;
  CHECK(server.status_of(user_asks("two"), {{"tools", {tool}}, {"max_tokens", 300}}) == 400);
}

TEST_CASE("tool calls: a call that max_tokens cuts off is no reason to say tool_calls") {
  const ScriptedServer server(kMistralTemplate, kMistralAnswers);
  const auto choice = server.ask(user_asks("one"), {{"tools", kTools}, {"max_tokens", 25}})["choices"][0];
  CHECK(choice["finish_reason"] == "length");
}

TEST_CASE("tool calls: a model whose template knows no tools is told of them in a text") {
  const ScriptedServer server(kPlainTemplate, kPlainAnswers);
  const int with = server.ask(user_asks("two"))["usage"]["prompt_tokens"];
  const int without = server.ask(user_asks("two"), json::object())["usage"]["prompt_tokens"];
  CHECK(with - without > static_cast<int>(kTools.dump().size()));  // bytes are tokens here
}

TEST_CASE("reasoning: it is told from the text, with tools and without") {
  const ScriptedServer server(kMistralTemplate, kMistralAnswers);
  for (const json& fields : {json::object(), json{{"tools", kTools}}}) {
    const auto message = server.ask(user_asks("think"), fields)["choices"][0]["message"];
    CHECK(message["reasoning_content"] == "How nice.");
    CHECK(message["content"] == "Welcome!");
    const auto chunks = server.stream(user_asks("think"), fields);
    CHECK(joined(chunks, "reasoning_content") == "How nice.");
    CHECK(joined(chunks, "content") == "Welcome!");
  }
}

namespace {

json weather_tool() {
  const json parameters = {{"type", "object"},
                           {"properties",
                            {{"city", {{"enum", {"Rome", "Oslo"}}}},
                             {"days", {{"type", "integer"}, {"minimum", 1}, {"maximum", 9}}}}},
                           {"required", {"city", "days"}},
                           {"additionalProperties", false}};
  return {{"type", "function"}, {"function", {{"name", "weather"}, {"parameters", parameters}}}};
}

void check_weather(const json& call) {
  CHECK(call["function"]["name"] == "weather");
  const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
  CHECK((arguments["city"] == "Rome" || arguments["city"] == "Oslo"));
  CHECK(arguments["days"] >= 1);
  CHECK(arguments["days"] <= 9);
}

}  // namespace

TEST_CASE("tool calls: a call that is demanded comes, though the model would say something else") {
  const std::string full = kMistralTemplate;  // but for the reasoning, which has no end in this model
  const ScriptedServer server(full.substr(0, full.find("{# </think>")), kMistralAnswers);
  const json tools = {tool("clock"), weather_tool()};
  const json demand = {{"type", "function"}, {"function", {{"name", "weather"}}}};
  const json fields = {{"tools", tools}, {"tool_choice", demand}, {"max_tokens", 200}};
  for (const std::string said : {"hello", "one"}) {
    CAPTURE(said);
    const auto choice = server.ask(user_asks(said), fields)["choices"][0];
    CHECK(choice["finish_reason"] == "tool_calls");
    CHECK(choice["message"]["content"].is_null());
    REQUIRE(choice["message"]["tool_calls"].size() == 1);
    check_weather(choice["message"]["tool_calls"][0]);
  }
  const auto streamed = joined_calls(server.stream(user_asks("hello"), fields));
  REQUIRE(streamed.size() == 1);
  check_weather(streamed[0]);
}

namespace {

// Qwen3-Coder's tags.
constexpr const char* kTaggedTemplate =
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n<function={{ c.function.name }}>\n"
    "{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n"
    "{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<|hello|>{% endif %}";
const std::vector<CuedAnswer> kTaggedAnswers = {{"<|hello|>", {{"Hello there."}}}};

// Text that is nearly a call, and one whose arguments break their schema.
constexpr const char* kLookingTemplate =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|look|>{% endif %}";
constexpr const char* kLookingText = "Where is it warm? 1 < 2, and a <tool is no call. I look:";
const std::vector<CuedAnswer> kLookingAnswers = {
    {"<|look|>",
     {{std::string(kLookingText) +
       "\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 70}}"
       "\n</tool_call>"}}}};

}  // namespace

TEST_CASE("tool calls: what is not among the allowed tools can't be called, and stays in the prompt") {
  const std::string full = kMistralTemplate;
  const ScriptedServer server(full.substr(0, full.find("{# </think>")), kMistralAnswers);
  const json tools = {tool("clock"), weather_tool()};
  const auto any = server.ask(user_asks("one"), {{"tools", tools}});
  CHECK(any["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "clock");
  const json weather = {{"type", "function"}, {"function", {{"name", "weather"}}}};
  for (const char* mode : {"required", "auto"}) {
    CAPTURE(mode);
    const json allowed = {{"mode", mode}, {"tools", json::array({weather})}};
    const json choice = {{"type", "allowed_tools"}, {"allowed_tools", allowed}};
    const auto answer = server.ask(
        user_asks("one"),
        {{"tools", tools}, {"tool_choice", choice}, {"parallel_tool_calls", false}, {"max_tokens", 200}});
    CHECK(answer["usage"]["prompt_tokens"] == any["usage"]["prompt_tokens"]);
    const auto& message = answer["choices"][0]["message"];
    REQUIRE(message["tool_calls"].size() == 1);
    check_weather(message["tool_calls"][0]);
  }
}

TEST_CASE("tool calls: one in tags can be demanded") {
  const ScriptedServer server(kTaggedTemplate, kTaggedAnswers);
  const json fields = {{"tools", {tool("clock"), weather_tool()}},
                       {"tool_choice", {{"type", "function"}, {"function", {{"name", "weather"}}}}},
                       {"max_tokens", 300}};
  const auto choice = server.ask(user_asks("hello"), fields)["choices"][0];
  CHECK(choice["finish_reason"] == "tool_calls");
  REQUIRE(choice["message"]["tool_calls"].size() == 1);
  check_weather(choice["message"]["tool_calls"][0]);
}

TEST_CASE("tool calls: those that need not be made keep to their schemas, behind text that is free") {
  const ScriptedServer server(kPlainTemplate, kPlainAnswers);
  const ScriptedServer talker(kTaggedTemplate, kTaggedAnswers);
  const ScriptedServer looker(kLookingTemplate, kLookingAnswers);
  for (const bool is_strict : {false, true}) {
    CAPTURE(is_strict);
    json weather = weather_tool();
    weather["function"]["strict"] = is_strict;
    const json fields = {{"tools", {weather}}, {"parallel_tool_calls", false}, {"max_tokens", 300}};
    const auto called = server.ask(user_asks("two"), fields)["choices"][0];  // of other tools
    REQUIRE(called["message"]["tool_calls"].size() == 1);
    check_weather(called["message"]["tool_calls"][0]);
    const auto broken = server.ask(user_asks("broken"), fields)["choices"][0]["message"];
    CHECK_FALSE(broken.contains("tool_calls"));
    CHECK(broken["content"].get<std::string>().find("<tool_call>") == std::string::npos);
    const auto choice = talker.ask(user_asks("hello"), fields)["choices"][0];
    CHECK(choice["finish_reason"] == "stop");
    CHECK(choice["message"]["content"] == "Hello there.");
    const auto looked = looker.ask(user_asks("look"), fields)["choices"][0];
    CHECK(looked["message"]["content"] == kLookingText);
    REQUIRE(looked["message"]["tool_calls"].size() == 1);
    check_weather(looked["message"]["tool_calls"][0]);
  }
}

TEST_CASE("tool calls: of a model whose template has no calls one can be demanded in the general format") {
  const ScriptedServer server(kPlainTemplate, kPlainAnswers);
  const json fields = {{"tools", {weather_tool()}},
                       {"tool_choice", "required"},
                       {"parallel_tool_calls", false},
                       {"max_tokens", 200}};
  for (const std::string said : {"two", "broken"}) {
    CAPTURE(said);
    const auto choice = server.ask(user_asks(said), fields)["choices"][0];
    REQUIRE(choice["message"]["tool_calls"].size() == 1);
    check_weather(choice["message"]["tool_calls"][0]);
  }
}
