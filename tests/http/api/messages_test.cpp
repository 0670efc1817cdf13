// SPDX-License-Identifier: Apache-2.0
// /v1/messages: bodies, answers and streams of a scripted engine.
#include "http/api/answers/message_json.hpp"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "tests/http/running_server.hpp"
#include "text/stable_hash.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

std::string body_with(const std::string& more) {
  return R"({"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}])" +
         (more.empty() ? "" : "," + more) + "}";
}
std::string with_messages(const std::string& messages) {
  return R"({"max_tokens":9,"messages":[)" + messages + "]}";
}

ApiRequest accepted(const std::string& body) {
  const auto parsed = parse_messages_request(body, demo_models(), Limits{});
  const auto* error = std::get_if<ApiError>(&parsed);
  INFO(body, " -> ", error == nullptr ? "" : error->message);
  REQUIRE(error == nullptr);
  return std::get<ApiRequest>(parsed);
}
std::vector<ChatMessage> messages_of(const std::string& body) {
  return std::get<ChatPrompt>(accepted(body).generation.prompt).messages;
}
std::string wrong_field(const std::string& body) {
  const auto parsed = parse_messages_request(body, demo_models(), Limits{});
  CAPTURE(body);
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed).field.value_or("");
}

// Ended by a stop string, two of five prompt tokens from the cache.
void answer_from_cache(RunningServer& server, const std::vector<std::string>& texts) {
  EngineScript& script = server.script();
  const RequestId id = script.wait_for_request(1);
  Usage usage{.prompt_tokens = 5, .completion_tokens = 0, .cached_tokens = 2};
  script.deliver(id, Accepted{.prompt_tokens = 5});
  for (const auto& text : texts) {
    ++usage.completion_tokens;
    script.deliver(id, TextDelta{.text = text, .usage = usage});
  }
  script.deliver(id, Finished{.stop_string = "END", .stop_token = {}, .usage = usage});
}

}  // namespace

TEST_CASE("messages: system, roles and blocks become a chat") {
  const auto messages = messages_of(
      R"({"max_tokens":9,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},)"
      R"({"type":"text","text":"b"}],"messages":[{"role":"user","content":[{"type":"text","text":"c"},)"
      R"({"type":"text","text":"d"}]},{"role":"assistant","content":"e"},{"role":"user","content":"f"}]})");
  REQUIRE(messages.size() == 4);
  CHECK(messages[0].role == "system");
  CHECK(messages[0].content == "a\nb");
  CHECK(messages[1].content == "c\nd");
  CHECK(messages[2].role == "assistant");
  CHECK(messages[3].content == "f");
  CHECK(messages_of(body_with(R"("system":"s")"))[0].content == "s");
}

TEST_CASE("messages: a system block that differs from request to request is left out") {
  const auto messages = messages_of(body_with(
      R"("system":[{"type":"text","text":"x-anthropic-billing-header: cch=1;"},{"type":"text","text":"s"}])"));
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].content == "s");
}

TEST_CASE("messages: calls and results become those of chats, results first") {
  const auto messages = messages_of(with_messages(
      R"({"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"h",)"
      R"("signature":"s"},{"type":"text","text":"t"},{"type":"tool_use","id":"toolu_1","name":"f",)"
      R"("input":{"a":1}}]},{"role":"user","content":[{"type":"text","text":"go on"},{"type":"tool_result",)"
      R"("tool_use_id":"toolu_1","content":[{"type":"text","text":"42"}]}]},{"role":"user","content":)"
      R"([{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"bad"}]})"));
  REQUIRE(messages.size() == 5);
  CHECK(messages[1].content == "t");
  CHECK(messages[1].reasoning == "h");
  REQUIRE(messages[1].tool_calls.size() == 1);
  CHECK(messages[1].tool_calls[0].id == "toolu_1");
  CHECK(messages[1].tool_calls[0].arguments == R"({"a":1})");
  CHECK(messages[2].role == "tool");
  CHECK(messages[2].content == "42");
  CHECK(messages[2].tool_call_id == "toolu_1");
  CHECK(messages[3].role == "user");
  CHECK(messages[3].content == "go on");
  CHECK(messages[4].role == "tool");
  CHECK(messages[4].content == "Error: bad");
}

TEST_CASE("messages: tools are shown to the model as chats show them") {
  const std::string tools =
      R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{}}}])";
  const auto shown = std::get<ChatPrompt>(accepted(body_with(tools)).generation.prompt).tools;
  CHECK(boost::json::parse(shown) ==
        boost::json::parse(R"([{"type":"function","function":{"name":"f","description":"d",)"
                           R"("parameters":{"type":"object","properties":{}}}}])"));
  const auto strict = std::get<ChatPrompt>(
      accepted(body_with(R"("tools":[{"name":"f","strict":true,"input_schema":{}}])")).generation.prompt);
  CHECK(strict.has_strict_tool);
  CHECK(boost::json::parse(strict.tools).at(0).at("function").at("strict") == true);
  const auto chosen = [&](const std::string& type) {
    const auto request = accepted(body_with(tools + R"(,"tool_choice":{"type":")" + type + "\"}"));
    return std::get<ChatPrompt>(request.generation.prompt);
  };
  CHECK(chosen("none").tools == shown);
  CHECK_FALSE(chosen("none").allows_calls);
  CHECK(chosen("auto").tools == shown);
  CHECK(chosen("auto").allows_calls);
  // Anthropic's own tools are ignored.
  const auto searching =
      accepted(body_with(R"("tools":[{"type":"web_search_20250305","name":"web_search"}])"));
  CHECK(std::get<ChatPrompt>(searching.generation.prompt).tools.empty());
}

TEST_CASE("messages: a choice can demand a call, and forbid several") {
  const std::string tools = R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":)";
  const auto prompt = [&](const std::string& choice) {
    return std::get<ChatPrompt>(accepted(body_with(tools + choice)).generation.prompt);
  };
  CHECK(prompt(R"({"type":"auto"})").splits_answer);
  CHECK_FALSE(prompt(R"({"type":"auto"})").demands_call);
  CHECK_FALSE(prompt(R"({"type":"auto"})").takes_one_call);
  CHECK(prompt(R"({"type":"auto","disable_parallel_tool_use":true})").takes_one_call);
  CHECK(prompt(R"({"type":"any"})").demands_call);
  CHECK_FALSE(prompt(R"({"type":"any"})").takes_one_call);
  CHECK(prompt(R"({"type":"any","disable_parallel_tool_use":true})").takes_one_call);
  const auto named = prompt(R"({"type":"tool","name":"f"})");
  CHECK(named.demands_call);
  CHECK(named.demanded_tool == "f");
  CHECK(named.takes_one_call);
  for (const std::string wrong :
       {R"({"type":"tool"})", R"({"type":"tool","name":"g"})", R"({"type":"some"})", "{}"})
    CHECK(wrong_field(body_with(tools + wrong)) == "tool_choice");
  CHECK(wrong_field(body_with(tools + R"({"type":"any","disable_parallel_tool_use":1})")) ==
        "tool_choice.disable_parallel_tool_use");
  CHECK(wrong_field(body_with(
            tools + R"({"type":"any"},"output_config":{"format":{"type":"json_schema","schema":{}}})")) ==
        "tool_choice");
}

TEST_CASE("messages: sampling and length have this API's names") {
  const auto request = accepted(body_with(
      R"("temperature":0.5,"top_p":0.9,"top_k":3,"stop_sequences":["END"],"stream":true,"metadata":{"user_id":"u"},)"
      R"("thinking":{"type":"disabled"},"output_config":{"effort":"low"},"service_tier":"auto")"));
  CHECK(request.shape == ResponseShape::kMessage);
  CHECK(request.stream);
  CHECK(request.generation.max_tokens == 9);
  CHECK(request.generation.sampling.temperature == 0.5F);
  CHECK(request.generation.sampling.top_k == 3);
  CHECK(request.generation.stop == std::vector<std::string>{"END"});
}

TEST_CASE("messages: the form of an answer is in output_config") {
  const auto request = accepted(body_with(
      R"("output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}})"));
  REQUIRE(request.generation.form);
  CHECK(request.generation.form->kind == OutputForm::Kind::kJsonSchema);
  CHECK(request.generation.form->text == R"({"type":"object"})");
  CHECK(request.generation.form->field == "output_config.format.schema");
  CHECK_FALSE(accepted(body_with(R"("output_config":{"effort":"low"})")).generation.form);
  CHECK(wrong_field(body_with(R"("output_config":{"format":{"type":"xml"}})")) ==
        "output_config.format.type");
}

TEST_CASE("messages: what is wrong or not supported is named") {
  CHECK(wrong_field(R"({"messages":[{"role":"user","content":"hi"}]})") == "max_tokens");
  CHECK(wrong_field(R"({"max_tokens":9})") == "messages");
  CHECK(wrong_field(R"({"max_tokens":0,"messages":[{"role":"user","content":"hi"}]})") == "max_tokens");
  CHECK(wrong_field(with_messages(R"({"role":"tool","content":"hi"})")) == "messages[0].role");
  CHECK(wrong_field(with_messages(R"({"role":"user"})")) == "messages[0].content");
  CHECK(wrong_field(with_messages(R"({"role":"user","content":[{"type":"image","source":{}}]})")) ==
        "messages[0].content[0].type");
  CHECK(wrong_field(with_messages(R"({"role":"user","content":[{"type":"text"}]})")) ==
        "messages[0].content[0].text");
  CHECK(
      wrong_field(with_messages(R"({"role":"user","content":[{"type":"tool_use","id":"1","name":"f"}]})")) ==
      "messages[0].content[0].type");
  CHECK(wrong_field(with_messages(R"({"role":"user","content":[{"type":"tool_result"}]})")) ==
        "messages[0].content[0].tool_use_id");
  CHECK(wrong_field(with_messages(R"({"role":"user","content":"a"},{"role":"assistant","content":"b"})")) ==
        "messages");
  for (const auto& [field, value] : {std::pair{"tool_choice", R"({"type":"any"})"},
                                     {"tool_choice", R"("auto")"},
                                     {"output_config", "7"},
                                     {"output_format", R"({"type":"json_schema","schema":{}})"},
                                     {"container", R"("c")"},
                                     {"mcp_servers", R"([{"name":"m"}])"},
                                     {"n", "2"},
                                     {"stop_sequences", R"([""])"},
                                     {"thinking", "7"}})
    CHECK(wrong_field(body_with("\"" + std::string(field) + "\":" + value)) == field);
  CHECK(wrong_field(body_with(R"("tools":[{"type":"bash_20250124","name":"bash"}])")) == "tools[0].type");
  const std::string searches = R"("tools":[{"type":"web_search_20250305","name":"web_search"}])";
  CHECK(wrong_field(body_with(searches + R"(,"tool_choice":{"type":"tool","name":"web_search"})")) ==
        "tool_choice");
  CHECK(wrong_field(body_with(R"("tools":[{"name":"f"}])")) == "tools[0].input_schema");
  CHECK(wrong_field(body_with(R"("tools":[{"name":"f","strict":1,"input_schema":{}}])")) ==
        "tools[0].strict");
}

TEST_CASE("messages: a whole answer has Anthropic's shape and tells what the cache had") {
  RunningServer server;
  TestClient client(server.port());
  client.send(post_request("/v1/messages?beta=true", body_with(""), "anthropic-version: 2023-06-01\r\n"));
  answer_from_cache(server, {"Hel", "lo"});
  const TestResponse response = client.read_response();
  CHECK(response.status == 200);
  const auto message = boost::json::parse(response.body).as_object();
  CHECK(message.at("id").as_string().starts_with("msg_"));
  CHECK(message.at("type").as_string() == "message");
  CHECK(message.at("role").as_string() == "assistant");
  CHECK(message.at("model").as_string() == "demo");
  CHECK(message.at("content") == boost::json::parse(R"([{"type":"text","text":"Hello"}])"));
  CHECK(message.at("stop_reason").as_string() == "stop_sequence");
  CHECK(message.at("stop_sequence").as_string() == "END");
  CHECK(message.at("usage") == boost::json::parse(R"({"input_tokens":3,"cache_creation_input_tokens":0,)"
                                                  R"("cache_read_input_tokens":2,"output_tokens":2})"));
}

TEST_CASE("messages: how an answer ended has a name of its own") {
  CHECK(message_stop_reason(
            {.reason = FinishReason::kStop, .stop_string = {}, .stop_token = {}, .usage = {}}) == "end_turn");
  CHECK(message_stop_reason(
            {.reason = FinishReason::kLength, .stop_string = {}, .stop_token = {}, .usage = {}}) ==
        "max_tokens");
  Finished called;
  called.called_tools = true;
  CHECK(message_stop_reason(called) == "tool_use");
  called.reason = FinishReason::kLength;
  CHECK(message_stop_reason(called) == "max_tokens");
}

TEST_CASE("messages: a stream has its events in order, with true counts from the first on") {
  RunningServer server;
  TestClient client(server.port());
  client.send(post_request("/v1/messages", body_with(R"("stream":true)")));
  answer_from_cache(server, {"Hel", "lo"});
  const TestResponse response = client.read_response();
  CHECK(response.field("Content-Type") == "text/event-stream; charset=utf-8");
  const auto data = sse_data(response.body);
  std::string types;
  for (const auto& each : data) {
    const auto event = boost::json::parse(each).as_object();
    const std::string type(event.at("type").as_string());
    CHECK(response.body.find("event: " + type + "\ndata: ") != std::string::npos);
    types += type + " ";
  }
  CHECK(types ==
        "message_start ping content_block_start content_block_delta content_block_delta content_block_stop "
        "message_delta message_stop ");
  const auto start = boost::json::parse(data[0]).at("message").as_object();
  CHECK(start.at("content").as_array().empty());
  CHECK(start.at("stop_reason").is_null());
  CHECK(start.at("usage").at("input_tokens") == 3);
  CHECK(start.at("usage").at("cache_read_input_tokens") == 2);
  CHECK(boost::json::parse(data[4]).at("delta") ==
        boost::json::parse(R"({"type":"text_delta","text":"lo"})"));
  const auto end = boost::json::parse(data[6]).as_object();
  CHECK(end.at("delta") == boost::json::parse(R"({"stop_reason":"stop_sequence","stop_sequence":"END"})"));
  CHECK(end.at("usage").at("output_tokens") == 2);
}

namespace {

// Thoughts, a text, a call in pieces, one without arguments, and one that the model wrote badly.
void answer_with_calls(RunningServer& server) {
  EngineScript& script = server.script();
  const RequestId id = script.wait_for_request(1);
  script.deliver(id, Accepted{.prompt_tokens = 5});
  script.deliver(id, TextDelta{.text = "", .usage = {}, .reasoning = "h"});
  script.deliver(id, TextDelta{.text = "Wait.", .usage = {}, .reasoning = "m"});
  script.deliver(id,
                 TextDelta{.text = "",
                           .usage = {},
                           .calls = {{.index = 0, .id = "toolu_0", .name = "f", .arguments = "{\"a\":"}}});
  script.deliver(id, TextDelta{.text = "",
                               .usage = {},
                               .calls = {{.index = 0, .arguments = " 1}"},
                                         {.index = 1, .id = "toolu_1", .name = "g"},
                                         {.index = 2, .id = "toolu_2", .name = "h", .arguments = "{no"}}});
  Finished finished;
  finished.called_tools = true;
  script.deliver(id, finished);
}

}  // namespace

TEST_CASE("messages: thoughts and calls are blocks of a whole answer, whose inputs are objects") {
  RunningServer server;
  TestClient client(server.port());
  client.send(post_request("/v1/messages", body_with("")));
  answer_with_calls(server);
  const auto message = boost::json::parse(client.read_response().body).as_object();
  CHECK(message.at("stop_reason").as_string() == "tool_use");
  const auto& content = message.at("content").as_array();
  REQUIRE(content.size() == 5);
  CHECK(content[0].at("type").as_string() == "thinking");
  CHECK(content[0].at("thinking").as_string() == "hm");
  CHECK_FALSE(content[0].at("signature").as_string().empty());
  CHECK(content[1] == boost::json::parse(R"({"type":"text","text":"Wait."})"));
  CHECK(content[2] == boost::json::parse(R"({"type":"tool_use","id":"toolu_0","name":"f","input":{"a":1}})"));
  CHECK(content[3] == boost::json::parse(R"({"type":"tool_use","id":"toolu_1","name":"g","input":{}})"));
  CHECK(content[4] == boost::json::parse(
                          R"({"type":"tool_use","id":"toolu_2","name":"h","input":{"INVALID_JSON":"{no"}})"));
}

TEST_CASE("messages: a stream opens a block for each item, one after the other") {
  RunningServer server;
  TestClient client(server.port());
  client.send(post_request("/v1/messages", body_with(R"("stream":true)")));
  answer_with_calls(server);
  std::string events;
  boost::json::value signature;
  for (const auto& each : sse_data(client.read_response().body)) {
    const auto event = boost::json::parse(each).as_object();
    const std::string type(event.at("type").as_string());
    if (type.starts_with("message") || type == "ping") continue;
    events += type.substr(type.rfind('_') + 1) + std::to_string(event.at("index").as_int64());
    if (type == "content_block_start") events += boost::json::serialize(event.at("content_block"));
    if (type == "content_block_delta") {
      const auto& delta = event.at("delta").as_object();
      if (delta.at("type").as_string() == "signature_delta") {
        signature = delta.at("signature");
      } else {
        events += boost::json::serialize(delta);
      }
    }
    events += " ";
  }
  CHECK(events ==
        R"(start0{"type":"thinking","thinking":"","signature":""} )"
        R"(delta0{"type":"thinking_delta","thinking":"h"} delta0{"type":"thinking_delta","thinking":"m"} )"
        R"(delta0 stop0 start1{"type":"text","text":""} delta1{"type":"text_delta","text":"Wait."} stop1 )"
        R"(start2{"type":"tool_use","id":"toolu_0","name":"f","input":{}} )"
        R"(delta2{"type":"input_json_delta","partial_json":"{\"a\":"} )"
        R"(delta2{"type":"input_json_delta","partial_json":" 1}"} stop2 )"
        R"(start3{"type":"tool_use","id":"toolu_1","name":"g","input":{}} stop3 )"
        R"(start4{"type":"tool_use","id":"toolu_2","name":"h","input":{}} )"
        R"(delta4{"type":"input_json_delta","partial_json":"{no"} stop4 )");
  CHECK(signature.as_string() == thinking_signature(stable_hash("hm")).c_str());
}

TEST_CASE("messages: a stream without text is a message all the same, one that fails ends with an error") {
  {
    RunningServer server;
    TestClient client(server.port());
    client.send(post_request("/v1/messages", body_with(R"("stream":true)")));
    answer_from_cache(server, {});
    const auto data = sse_data(client.read_response().body);
    REQUIRE(data.size() == 4);
    CHECK(data[3] == R"({"type":"message_stop"})");
  }
  RunningServer server;
  TestClient client(server.port());
  client.send(post_request("/v1/messages", body_with(R"("stream":true)")));
  const RequestId id = server.script().wait_for_request(1);
  server.script().deliver(id, Accepted{.prompt_tokens = 5});
  server.script().deliver(id, Failed{{.kind = ApiErrorKind::kInternal, .message = "no more"}});
  const std::string all = client.read_to_end();
  CHECK(all.find("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":"
                 "\"no more\"}") != std::string::npos);
}

TEST_CASE("messages: errors have Anthropic's shape, keys may be in its field") {
  RunningServer server([](ServerOptions& options) { options.api_keys = {{"default", "secret"}}; });
  struct Row {
    std::string body, fields;
    unsigned status;
    std::string type;
  };
  const Row rows[] = {
      {body_with(""), "", 401, "authentication_error"},
      {body_with(""), "X-Api-Key: wrong\r\n", 401, "authentication_error"},
      {"{", "X-Api-Key: secret\r\n", 400, "invalid_request_error"},
      {R"({"model":"claude","max_tokens":1,"messages":[{"role":"user","content":"a"}]})",
       "Authorization: Bearer secret\r\n", 404, "not_found_error"},
  };
  for (const auto& row : rows) {
    TestClient client(server.port());
    client.send(post_request("/v1/messages", row.body, row.fields));
    const TestResponse response = client.read_response();
    CHECK(response.status == row.status);
    const auto error = boost::json::parse(response.body).as_object();
    CHECK(error.at("type").as_string() == "error");
    CHECK(error.at("error").at("type").as_string() == row.type);
    CHECK(error.at("error").at("message").is_string());
    CHECK(error.at("request_id").as_string() == response.field("X-Request-Id"));
  }
  TestClient client(server.port());
  client.send(get_request("/v1/models", "X-Api-Key: secret\r\n"));
  CHECK(client.read_response().status == 200);
}

TEST_CASE("messages: tokens are counted without an answer") {
  RunningServer server;
  TestClient client(server.port());
  client.send(post_request("/v1/messages/count_tokens",
                           R"({"model":"demo","system":"s","messages":[{"role":"user","content":"hi"}]})"));
  const RequestId id = server.script().wait_for_request(1);
  CHECK(server.script().submitted(id).request.use == PromptUse::kEncode);
  server.script().deliver(id, EncodedText{.text = {}, .tokens = {1, 2, 3}, .token_texts = {}});
  CHECK(client.read_response().body == R"({"input_tokens":3})");
}
