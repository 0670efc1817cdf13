// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/tool_fields.hpp"

#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>

#include "http/api/requests/openai_api.hpp"
#include "tests/http/running_server.hpp"

using namespace troupe;

namespace {

constexpr std::string_view kTool = R"({"type":"function","function":{"name":"f"}})";

std::variant<ApiRequest, ApiError> parse_chat(const std::string& fields) {
  return parse_chat_request(R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}",
                            test::demo_models(), {});
}
std::variant<ApiRequest, ApiError> parse_response(const std::string& fields) {
  return parse_responses_request(R"({"input":"hi",)" + fields + "}", test::demo_models(), {});
}
ChatPrompt prompt_of(const std::variant<ApiRequest, ApiError>& parsed) {
  const auto* error = std::get_if<ApiError>(&parsed);
  REQUIRE_MESSAGE(error == nullptr, error->message);
  return std::get<ChatPrompt>(std::get<ApiRequest>(parsed).generation.prompt);
}
ApiError error_of(const std::variant<ApiRequest, ApiError>& parsed) {
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  CHECK(std::get<ApiError>(parsed).kind == ApiErrorKind::kInvalidRequest);
  return std::get<ApiError>(parsed);
}
std::string tools(const std::string& list, const std::string& more = "") {
  return "\"tools\":" + list + more;
}
std::string wrong_field(const std::string& list) {
  CAPTURE(list);
  return error_of(parse_chat(tools(list))).field.value_or("");
}
std::vector<ChatMessage> messages(const std::string& list) {
  return prompt_of(parse_chat_request("{\"messages\":" + list + "}", test::demo_models(), {})).messages;
}
std::string wrong_message(const std::string& list) {
  CAPTURE(list);
  return error_of(parse_chat_request("{\"messages\":" + list + "}", test::demo_models(), {}))
      .field.value_or("");
}
std::vector<ChatMessage> items(const std::string& list) {
  return prompt_of(parse_responses_request("{\"input\":" + list + "}", test::demo_models(), {})).messages;
}
std::string wrong_item(const std::string& list) {
  CAPTURE(list);
  return error_of(parse_responses_request("{\"input\":" + list + "}", test::demo_models(), {}))
      .field.value_or("");
}

}  // namespace

TEST_CASE("tool fields: tools are handed on as they came, with parameters, without nulls") {
  CHECK(prompt_of(parse_chat(tools("[" + std::string(kTool) + "]"))).tools ==
        R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}])");
  CHECK(
      prompt_of(
          parse_chat(tools(
              R"([{"function":{"description":"d","name":"a-B_9","strict":null,"x":[1],"parameters":{"properties":{"b":{},"a":{"type":"string"}},"required":["b"],"type":"object"}}}])")))
          .tools ==
      R"([{"type":"function","function":{"description":"d","name":"a-B_9","x":[1],"parameters":{"properties":{"b":{},"a":{"type":"string"}},"required":["b"],"type":"object"}}}])");
  CHECK(prompt_of(parse_chat("\"tools\":[]")).tools.empty());
  CHECK(prompt_of(parse_chat("\"tools\":null")).tools.empty());
}

TEST_CASE("tool fields: responses name their tools flat, templates see the same") {
  CHECK(
      prompt_of(
          parse_response(tools(
              R"([{"type":"function","name":"f","description":null,"parameters":null,"strict":true}])")))
          .tools ==
      R"([{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{}}}}])");
  CHECK(error_of(parse_response(tools("[" + std::string(kTool) + "]"))).field == "tools[0].name");
  const auto error = error_of(parse_response(tools(R"([{"type":"functoin"}])")));
  CHECK(error.field == "tools[0].type");
  CHECK(error.message == "tools[0].type must be \"function\": tools of type \"functoin\" are not supported");
}

TEST_CASE("tool fields: tools that another server runs itself are ignored, and can't be demanded") {
  // As Codex sends them.
  for (const std::string hosted : {"web_search", "web_search_preview_2025_03_11", "image_generation",
                                   "tool_search", "file_search", "mcp"}) {
    CAPTURE(hosted);
    const std::string type = R"({"type":")" + hosted + R"("})";
    const auto read = parse_response(tools("[" + type + R"(,{"type":"function","name":"f"}])"));
    CHECK(prompt_of(read).tools ==
          R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}])");
    const auto& settings = std::get<ApiRequest>(read).generation.turn->settings;
    CHECK(settings.find(hosted) == std::string::npos);
    CHECK(settings.find(R"("tools":[{"type":"function","name":"f"}])") != std::string::npos);
    CHECK(prompt_of(parse_response(tools("[" + type + "]"))).tools.empty());
    CHECK(error_of(parse_response(tools("[" + type + "]", ",\"tool_choice\":" + type))).field ==
          "tool_choice");
    CHECK(error_of(parse_response(tools("[" + type + "]", R"(,"tool_choice":"required")"))).field ==
          "tool_choice");
    CHECK(error_of(parse_chat(tools("[" + type + "]"))).field == "tools[0].type");
  }
}

TEST_CASE("tool fields: tools are shown whatever the choice, none allows no call, and others are refused") {
  const std::string list = "[" + std::string(kTool) + "]";
  for (const auto& parse : {parse_chat, parse_response}) {
    const std::string own = parse == parse_chat ? list : std::string(R"([{"type":"function","name":"f"}])");
    CHECK(!prompt_of(parse(tools(own))).tools.empty());
    CHECK(!prompt_of(parse(tools(own, ",\"tool_choice\":\"auto\""))).tools.empty());
    CHECK(!prompt_of(parse(tools(own, ",\"tool_choice\":null,\"parallel_tool_calls\":false"))).tools.empty());
    CHECK(prompt_of(parse(tools(own))).allows_calls);
    const auto none = prompt_of(parse(tools(own, ",\"tool_choice\":\"none\"")));
    CHECK(none.tools == prompt_of(parse(tools(own))).tools);
    CHECK_FALSE(none.allows_calls);
    // The name of a function is where the endpoint's own tools have it.
    const std::string others = parse == parse_chat ? R"({"type":"function","name":"f"})"
                                                   : R"({"type":"function","function":{"name":"f"}})";
    for (const std::string& choice : {std::string("\"f\""), std::string("true"), std::string("[]"), others,
                                      std::string(R"({"type":"allowed_tools","mode":"auto","tools":[]})"),
                                      std::string(R"({"type":"mcp"})")}) {
      const auto error = error_of(parse(tools(own, ",\"tool_choice\":" + choice)));
      CHECK(error.field == "tool_choice");
      CHECK(
          error.message.starts_with("tool_choice is not supported yet except as \"auto\", \"none\", "
                                    "\"required\", a function or allowed_tools, got "));
    }
    CHECK(error_of(parse(tools(own, ",\"parallel_tool_calls\":1"))).field == "parallel_tool_calls");
    CHECK(prompt_of(parse(tools(own, ",\"parallel_tool_calls\":false"))).takes_one_call);
    CHECK_FALSE(prompt_of(parse(tools(own))).takes_one_call);
    CHECK(prompt_of(parse(tools(own))).splits_answer);
  }
}

TEST_CASE("tool fields: responses can demand a call as chats can") {
  const std::string list =
      R"([{"type":"function","name":"f"},{"type":"custom","name":"c"},)"
      R"({"type":"namespace","name":"s","description":"d","tools":[{"type":"function","name":"f"}]}])";
  const auto demanded = [&](const std::string& choice) {
    const auto prompt = prompt_of(parse_response(tools(list, ",\"tool_choice\":" + choice)));
    CHECK(prompt.demands_call);
    CHECK(prompt.takes_one_call == (choice != "\"required\""));
    return prompt.demanded_tool;
  };
  CHECK(demanded("\"required\"").empty());
  CHECK(demanded(R"({"type":"function","name":"f"})") == "f");
  CHECK(demanded(R"({"type":"custom","name":"c"})") == "c");
  CHECK(demanded(R"({"type":"function","namespace":"s","name":"f"})") == "s__f");
  for (const std::string& wrong :
       {tools("[]", ",\"tool_choice\":\"required\""),
        tools(list, R"(,"tool_choice":{"type":"function","name":"g"})"),
        tools(list, R"(,"tool_choice":"required","text":{"format":{"type":"json_object"}})")})
    CHECK(error_of(parse_response(wrong)).field == "tool_choice");
}

TEST_CASE("tool fields: some of the tools may be all that can be called") {
  const std::string chat_tools = R"([{"function":{"name":"f"}},{"function":{"name":"g"}}])";
  const auto chat = [&](const std::string& mode, const std::string& name) {
    return parse_chat(
        tools(chat_tools, R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":")" + mode +
                              R"(","tools":[{"type":"function","function":{"name":")" + name + R"("}}]}})"));
  };
  const auto prompt = prompt_of(chat("auto", "g"));
  CHECK(prompt.tools == prompt_of(parse_chat(tools(chat_tools))).tools);
  CHECK(prompt.callable_tools ==
        R"([{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}])");
  CHECK_FALSE(prompt.demands_call);
  CHECK(prompt_of(chat("required", "g")).demands_call);
  CHECK(error_of(chat("auto", "h")).field == "tool_choice");
  CHECK(error_of(chat("any", "g")).field == "tool_choice");

  const std::string choice =
      R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"c"}]})";
  const auto response = parse_response(tools(
      R"([{"type":"function","name":"f"},{"type":"custom","name":"c"}])", ",\"tool_choice\":" + choice));
  CHECK(prompt_of(response).callable_tools.find("\"c\"") != std::string::npos);
  CHECK(prompt_of(response).callable_tools.find("\"f\"") == std::string::npos);
  CHECK(std::get<ApiRequest>(response).generation.turn->settings.starts_with("\"tool_choice\":" + choice));
}

TEST_CASE("tool fields: custom tools and those in namespaces are functions to the model") {
  const auto parsed = parse_response(tools(
      R"([{"type":"custom","name":"patch","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},)"
      R"({"type":"namespace","name":"mcp__files__","description":"d","tools":[{"type":"function","name":"read","parameters":{"type":"object","properties":{}}},)"
      R"({"type":"custom","name":"note"}]}])"));
  const auto shown = boost::json::parse(prompt_of(parsed).tools).as_array();
  REQUIRE(shown.size() == 3);
  const auto& patch = shown[0].at("function");
  CHECK(patch.at("name").as_string() == "patch");
  CHECK(patch.at("parameters") ==
        boost::json::parse(
            R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"]})"));
  CHECK(std::string(patch.at("description").as_string()).find("start: x") != std::string::npos);
  CHECK(shown[1].at("function").at("name").as_string() == "mcp__files__read");
  CHECK(shown[2].at("function").at("name").as_string() == "mcp__files__note");
  CHECK(std::get<ApiRequest>(parsed).generation.turn->tool_names ==
        ToolNames{
            {.shown = "patch", .name = "patch", .is_custom = true},
            {.shown = "mcp__files__read", .name_space = "mcp__files__", .name = "read"},
            {.shown = "mcp__files__note", .name_space = "mcp__files__", .name = "note", .is_custom = true}});
  const auto wrong = [](const std::string& list) {
    return error_of(parse_response(tools(list))).field.value_or("");
  };
  CHECK(wrong(R"([{"type":"custom","name":"a b"}])") == "tools[0].name");
  CHECK(wrong(R"([{"type":"custom","name":"a","format":7}])") == "tools[0].format");
  CHECK(wrong(R"([{"type":"namespace","tools":[]}])") == "tools[0].name");
  CHECK(wrong(R"([{"type":"namespace","name":"s"}])") == "tools[0].tools");
  CHECK(wrong(R"([{"type":"namespace","name":"s","tools":{}}])") == "tools[0].tools");
  CHECK(wrong(R"([{"type":"namespace","name":"s","tools":[{"type":"namespace","name":"t","tools":[]}]}])") ==
        "tools[0].tools[0].type");
  CHECK(wrong(R"([{"type":"function","name":"s__f"},)"
              R"({"type":"namespace","name":"s","tools":[{"type":"function","name":"f"}]}])") ==
        "tools[1].tools[0].name");
  std::string many;
  for (int i = 0; i < 513; ++i)
    many += (i > 0 ? "," : "") + std::string(R"({"type":"function","name":"f)") + std::to_string(i) + "\"}";
  CHECK(wrong(R"([{"type":"namespace","name":"s","tools":[)" + many + "]}]") == "tools[0].tools");
  CHECK(wrong(R"([{"type":"namespace","name":"s","tools":[{"type":"function","name":"f"}]},)"
              R"({"type":"function","name":"s__f"}])") == "tools[1].name");
}

TEST_CASE("tool fields: chats can demand a call, of any tool or of one that is there") {
  const std::string list = "[" + std::string(kTool) + "]";
  const auto required = prompt_of(parse_chat(tools(list, ",\"tool_choice\":\"required\"")));
  CHECK(required.demands_call);
  CHECK(required.demanded_tool.empty());
  CHECK_FALSE(required.takes_one_call);
  const std::string name = "a-B_9";
  const std::string named = R"(,"tool_choice":{"type":"function","function":{"name":")" + name + "\"}}";
  const auto one =
      prompt_of(parse_chat(tools(R"([{"type":"function","function":{"name":"a-B_9"}}])", named)));
  CHECK(one.demanded_tool == name);
  CHECK(one.takes_one_call);
  for (const std::string& wrong :
       {tools("[]", ",\"tool_choice\":\"required\""),
        tools(R"([{"type":"function","function":{"name":"other"}}])", named),
        tools(list, R"(,"tool_choice":"required","response_format":{"type":"json_object"})")})
    CHECK(error_of(parse_chat(wrong)).field == "tool_choice");
  CHECK(error_of(parse_chat(tools(list, R"(,"tool_choice":"required","min_tokens":1)"))).field ==
        "min_tokens");
}

TEST_CASE("tool fields: what is wrong with a tool is named with its place, whatever the choice") {
  CHECK(wrong_field("{}") == "tools");
  CHECK(wrong_field("\"f\"") == "tools");
  CHECK(wrong_field("[1]") == "tools[0]");
  CHECK(wrong_field(R"([{"type":"function"}])") == "tools[0].function");
  CHECK(wrong_field(R"([{"type":"function","function":"f"}])") == "tools[0].function");
  CHECK(wrong_field(R"([{"type":"custom","custom":{"name":"f"}}])") == "tools[0].type");
  CHECK(wrong_field(R"([{"type":"function","function":{}}])") == "tools[0].function.name");
  const std::string good(kTool);
  for (const std::string& name : {std::string(), std::string("a b"), std::string("f()"),
                                  std::string("\u00e4"), std::string(65, 'x'), std::string("<|end|>")})
    CHECK(wrong_field("[" + good + R"(,{"type":"function","function":{"name":")" + name + "\"}}]") ==
          "tools[1].function.name");
  CHECK(wrong_field(R"([{"type":"function","function":{"name":"f","description":5}}])") ==
        "tools[0].function.description");
  CHECK(wrong_field(R"([{"type":"function","function":{"name":"f","parameters":[]}}])") ==
        "tools[0].function.parameters");
  CHECK(wrong_field(R"([{"type":"function","function":{"name":"f","strict":"yes"}}])") ==
        "tools[0].function.strict");
  CHECK(error_of(parse_chat(tools("[1]", ",\"tool_choice\":\"none\""))).field == "tools[0]");
}

TEST_CASE("tool fields: two tools of one name are refused, whatever the API") {
  const std::string good(kTool);
  const auto chat = error_of(parse_chat(tools("[" + good + "," + good + "]")));
  CHECK(chat.field == "tools[1].function.name");
  CHECK(chat.message.find("\"f\" is the name of another tool, too") != std::string::npos);
  const std::string flat = R"({"type":"function","name":"f"})";
  CHECK(error_of(parse_response(tools("[" + flat + "," + flat + "]"))).field == "tools[1].name");
  const std::string body =
      R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{}},)"
      R"({"name":"f","input_schema":{}}]})";
  CHECK(error_of(parse_messages_request(body, test::demo_models(), {})).field == "tools[1].name");
}

TEST_CASE("tool fields: the number of tools and the width of their schemas are limited") {
  const auto many = [](std::size_t number) {
    std::string list;
    for (std::size_t i = 0; i < number; ++i)
      list += (i > 0 ? R"(,{"type":"function","function":{"name":"f)"
                     : R"({"type":"function","function":{"name":"f)") +
              std::to_string(i) + "\"}}";
    return "[" + list + "]";
  };
  CHECK(!prompt_of(parse_chat(tools(many(128)))).tools.empty());
  CHECK(wrong_field(many(129)) == "tools");
  std::string wide;
  for (int i = 0; i < 513; ++i) wide += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":{}";
  CHECK(wrong_field(R"([{"type":"function","function":{"name":"f","parameters":{"properties":{)" + wide +
                    "}}}}]") == "tools");
}

TEST_CASE("tool fields: functions, their older name, are refused by name") {
  for (const std::string field : {R"("functions":[{"name":"f"}])", R"("function_call":{"name":"f"})"}) {
    const auto error = error_of(parse_chat(field));
    CHECK(error.field == field.substr(1, field.find(':') - 2));
    CHECK(error.message.find("use tool") != std::string::npos);
  }
  prompt_of(parse_chat(R"("functions":[],"function_call":"auto")"));
}

TEST_CASE("tool fields: an assistant's calls and a tool's results are messages") {
  const auto read = messages(
      R"([{"role":"user","content":"?"},
          {"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},
                                            {"function":{"name":"no tool at all"}}]},
          {"role":"tool","tool_call_id":"c1","content":"one"},
          {"role":"tool","name":"g","content":[{"type":"text","text":"two"}]},
          {"role":"assistant","content":"text","tool_calls":[{"id":"c2","type":"function","function":{"name":"f","arguments":""}}]}])");
  REQUIRE(read.size() == 5);
  CHECK(read[1] == ChatMessage{.role = "assistant",
                               .tool_calls = {{.id = "c1", .name = "f", .arguments = "{\"a\": 1}"},
                                              {.name = "no tool at all"}}});
  CHECK(read[2] == ChatMessage{.role = "tool", .content = "one", .tool_call_id = "c1"});
  CHECK(read[3] == ChatMessage{.role = "tool", .content = "two", .name = "g"});
  CHECK(read[4].content == "text");
  CHECK(read[4].tool_calls.size() == 1);
}

TEST_CASE("tool fields: what is wrong with a call is named with its place") {
  const auto in_call = [](const std::string& call) {
    return wrong_message(R"([{"role":"assistant","content":null,"tool_calls":[)" + call + "]}]");
  };
  CHECK(in_call("1") == "messages[0].tool_calls[0]");
  CHECK(in_call("{}") == "messages[0].tool_calls[0].function");
  CHECK(in_call(R"({"type":"custom","custom":{"name":"f","input":"x"}})") ==
        "messages[0].tool_calls[0].type");
  CHECK(in_call(R"({"function":{}})") == "messages[0].tool_calls[0].function.name");
  CHECK(in_call(R"({"function":{"name":""}})") == "messages[0].tool_calls[0].function.name");
  CHECK(in_call(R"({"function":{"name":"f","arguments":{}}})") ==
        "messages[0].tool_calls[0].function.arguments");
  CHECK(in_call(R"({"id":7,"function":{"name":"f"}})") == "messages[0].tool_calls[0].id");
  CHECK(wrong_message(R"([{"role":"user","content":"x","tool_calls":[{"function":{"name":"f"}}]}])") ==
        "messages[0].tool_calls");
  CHECK(wrong_message(R"([{"role":"assistant","tool_calls":{}}])") == "messages[0].tool_calls");
  CHECK(wrong_message(R"([{"role":"tool","tool_call_id":"c"}])") == "messages[0].content");
  CHECK(wrong_message(R"([{"role":"tool","tool_call_id":1,"content":"x"}])") == "messages[0].tool_call_id");
}

TEST_CASE("tool fields: the calls of a response's input are one message, with the text before them") {
  const auto read = items(
      R"([{"role":"user","content":"?"},{"role":"assistant","content":"Wait."},
          {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}","status":"completed"},
          {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
          {"type":"function_call_output","call_id":"c1","output":"one"},
          {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]},
          {"type":"function_call","call_id":"c3","name":"f","arguments":"{}"}])");
  REQUIRE(read.size() == 5);
  CHECK(read[1].content == "Wait.");
  CHECK(read[1].tool_calls == std::vector<ToolCall>{{.id = "c1", .name = "f", .arguments = "{}"},
                                                    {.id = "c2", .name = "g", .arguments = "{}"}});
  CHECK(read[2] == ChatMessage{.role = "tool", .content = "one", .tool_call_id = "c1"});
  CHECK(read[3] == ChatMessage{.role = "tool", .content = "two", .tool_call_id = "c2"});
  CHECK(read[4] ==
        ChatMessage{.role = "assistant", .tool_calls = {{.id = "c3", .name = "f", .arguments = "{}"}}});
}

TEST_CASE("tool fields: calls of custom tools and in namespaces are calls of what the model was shown") {
  const auto read = items(
      R"([{"role":"user","content":"?"},
          {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
          {"type":"custom_tool_call","call_id":"c1","name":"patch","input":"a\nb"},
          {"type":"custom_tool_call_output","call_id":"c1","output":"ok"},
          {"type":"function_call","call_id":"c2","namespace":"s","name":"f","arguments":"{}"}])");
  REQUIRE(read.size() == 4);
  CHECK(read[1] ==
        ChatMessage{.role = "assistant",
                    .tool_calls = {{.id = "c1", .name = "patch", .arguments = R"({"input":"a\nb"})"}},
                    .reasoning = "hm"});
  CHECK(read[2] == ChatMessage{.role = "tool", .content = "ok", .tool_call_id = "c1"});
  CHECK(read[3].tool_calls[0].name == "s__f");
  CHECK(wrong_item(R"([{"type":"custom_tool_call","call_id":"c","name":"f"}])") == "input[0].input");
  CHECK(wrong_item(R"([{"type":"custom_tool_call","call_id":"c","input":"x"}])") == "input[0].name");
}

TEST_CASE("tool fields: thoughts of earlier answers belong to what follows them") {
  const auto read = items(
      R"([{"role":"user","content":"?"},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}]},
          {"role":"assistant","content":"Yes."},{"role":"user","content":"!"},
          {"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"xyz"},
          {"type":"reasoning","id":"rs_3","summary":[],"content":[{"type":"reasoning_text","text":"lost"}]}])");
  REQUIRE(read.size() == 3);
  CHECK(read[1] == ChatMessage{.role = "assistant", .content = "Yes.", .reasoning = "s"});
  CHECK(read[2].content == "!");
  CHECK(wrong_item(R"([{"type":"reasoning","content":[{"type":"text","text":"x"}]}])") ==
        "input[0].content[0].type");
  CHECK(
      messages(
          R"([{"role":"assistant","content":"a","reasoning_content":"h"},{"role":"user","content":"b"}])")[0]
          .reasoning == "h");
}

TEST_CASE("tool fields: what is wrong with a call or result in a response's input is named with its place") {
  CHECK(wrong_item(R"([{"type":"function_call","name":"f","arguments":"{}"}])") == "input[0].call_id");
  CHECK(wrong_item(R"([{"type":"function_call","call_id":"c","arguments":"{}"}])") == "input[0].name");
  CHECK(wrong_item(R"([{"type":"function_call","call_id":"c","name":"f","arguments":{}}])") ==
        "input[0].arguments");
  CHECK(wrong_item(R"([{"type":"function_call_output","output":"x"}])") == "input[0].call_id");
  CHECK(wrong_item(R"([{"type":"function_call_output","call_id":"c"}])") == "input[0].output");
  CHECK(wrong_item(R"([{"type":"function_call_output","call_id":"c","output":[{"type":"input_image"}]}])") ==
        "input[0].output[0].type");
  CHECK(wrong_item(R"([{"type":"computer_call","id":"x"}])") == "input[0].type");
  // Another server's calls of its own tools are left out; alone they are nothing.
  CHECK(wrong_item(R"([{"type":"web_search_call","id":"x"}])") == "input");
}
