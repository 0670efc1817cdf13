// SPDX-License-Identifier: Apache-2.0
#include "actors/request/captured_content.hpp"

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

TEST_CASE("captured content: a long chat keeps its end") {
  const std::string half(kMaxCapturedBytes / 2, 'x');
  const json messages = input_of({.messages = {{.role = "system", .content = "first"},
                                               {.role = "user", .content = half + half},
                                               {.role = "assistant", .content = half},
                                               {.role = "user", .content = "last"}}});
  REQUIRE(messages.size() == 3);
  CHECK(messages[2].at("parts").at(0).at("content") == "last");
  CHECK(messages[1].at("parts").at(0).at("content") == half);
  CHECK(messages[0].at("parts").at(0).at("content").get<std::string>().size() == half.size() - 4);
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
