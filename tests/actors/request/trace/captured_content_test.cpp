// SPDX-License-Identifier: Apache-2.0
#include "actors/request/trace/captured_content.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace troupe {
namespace {

using nlohmann::json;

json input_of(ChatPrompt chat) {
  GenerationRequest request;
  request.prompt = std::move(chat);
  return json::parse(input_messages(request));
}

std::size_t num_captured_bytes(const ChatPrompt& chat) {
  GenerationRequest request;
  request.prompt = chat;
  return input_messages(request).size();
}

TEST_CASE("captured content: a chat is its messages, with the calls of tools") {
  ChatMessage call{.role = "assistant"};
  call.tool_calls = {{.id = "call-1", .name = "weather", .arguments = R"({"city":"Ulm"})"}};
  const json messages = input_of({.messages = {{.role = "user", .content = "Rain \"there\"?"}, call}});
  REQUIRE(messages.size() == 2);
  CHECK(messages[0] ==
        json::parse(R"({"role":"user","parts":[{"type":"text","content":"Rain \"there\"?"}]})"));
  CHECK(messages[1].at("role") == "assistant");
  CHECK(messages[1].at("parts").at(0).at("type") == "tool_call");
  CHECK(messages[1].at("parts").at(0).at("name") == "weather");
  CHECK(messages[1].at("parts").at(0).at("arguments") == R"({"city":"Ulm"})");
}

TEST_CASE("captured content: a tool's answer names its call, and thoughts come before what is said") {
  ChatMessage thinking{.role = "assistant", .content = "No."};
  thinking.reasoning = "It is dry.";
  ChatMessage result{.role = "tool", .content = "dry, 21 degrees"};
  result.tool_call_id = "call-1";
  const json messages = input_of({.messages = {result, thinking}});
  CHECK(messages == json::parse(R"([
      {"role":"tool","parts":[{"type":"tool_call_response","id":"call-1","response":"dry, 21 degrees"}]},
      {"role":"assistant","parts":[{"type":"reasoning","content":"It is dry."},{"type":"text","content":"No."}]}])"));
}

TEST_CASE("captured content: results of tools and thoughts are within the bound too") {
  const std::string long_text(kMaxCapturedBytes, 'x');
  ChatMessage result{.role = "tool", .content = long_text}, thinking{.role = "assistant"};
  result.tool_call_id = long_text;
  thinking.reasoning = long_text;
  CHECK(num_captured_bytes({.messages = {result, result}}) <= kMaxCapturedBytes);
  CHECK(num_captured_bytes({.messages = {thinking, thinking}}) <= kMaxCapturedBytes);
  CHECK(num_captured_bytes({.messages = std::vector<ChatMessage>(10'000, ChatMessage{.role = "tool"})}) <=
        kMaxCapturedBytes);
}

TEST_CASE("captured content: a long chat keeps its end") {
  const std::string half(kMaxCapturedBytes / 2, 'x');
  const json messages = input_of({.messages = {{.role = "system", .content = "first"},
                                               {.role = "user", .content = half + half},
                                               {.role = "assistant", .content = half},
                                               {.role = "user", .content = "last"}}});
  REQUIRE(messages.size() == 3);
  CHECK(messages[2].at("parts").at(0).at("content") == "last");
  CHECK(messages[1].at("parts").at(0).at("content") == half);
  const std::string cut = messages[0].at("parts").at(0).at("content");
  CHECK(cut.size() < half.size());
  CHECK(cut.size() > half.size() - 300);  // roles and frames cost the rest
}

TEST_CASE("captured content: calls of tools share one bound with all else") {
  ChatMessage calls{.role = "assistant"};
  for (int i = 0; i < 15; ++i)
    calls.tool_calls.push_back({.id = "call", .name = "f", .arguments = std::string(60'000, 'x')});
  const json parts = input_of({.messages = {calls}}).at(0).at("parts");
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].at("arguments").get<std::string>().size() == 60'000);
  CHECK(num_captured_bytes({.messages = {calls}}) <= kMaxCapturedBytes);
}

TEST_CASE("captured content: ids, names, roles and empty messages are within the bound too") {
  const std::string long_text(kMaxCapturedBytes, 'x');
  ChatMessage id{.role = "assistant"}, name{.role = "assistant"}, empty_calls{.role = "assistant"};
  id.tool_calls = {{.id = long_text}, {.id = long_text}};
  name.tool_calls = {{.name = long_text}, {.name = long_text}};
  empty_calls.tool_calls.resize(10'000);
  CHECK(num_captured_bytes({.messages = {id, id}}) <= kMaxCapturedBytes);
  CHECK(num_captured_bytes({.messages = {name, name}}) <= kMaxCapturedBytes);
  CHECK(num_captured_bytes({.messages = {empty_calls}}) <= kMaxCapturedBytes);
  CHECK(num_captured_bytes({.messages = {{.role = long_text}, {.role = long_text}}}) <= kMaxCapturedBytes);
  CHECK(num_captured_bytes({.messages = std::vector<ChatMessage>(10'000, ChatMessage{.role = "user"})}) <=
        kMaxCapturedBytes);
}

TEST_CASE("captured content: a text is cut at the bound, also in mid-character, and tokens are none") {
  GenerationRequest request;
  request.prompt = TextPrompt{.text = std::string(kMaxCapturedBytes - 1, 'x') + "\xC3\xA9"};
  const json messages = json::parse(input_messages(request));
  const std::string content = messages.at(0).at("parts").at(0).at("content");
  CHECK(content == std::string(kMaxCapturedBytes - 1, 'x') + "\xEF\xBF\xBD");
  request.prompt = TokenPrompt{.tokens = {1, 2}};
  CHECK(input_messages(request) == "");
}

TEST_CASE("captured content: an answer says why it ended") {
  const json messages = json::parse(output_messages("3, 4", "stop"));
  CHECK(messages ==
        json::parse(
            R"([{"role":"assistant","parts":[{"type":"text","content":"3, 4"}],"finish_reason":"stop"}])"));
}

}  // namespace
}  // namespace troupe
