// SPDX-License-Identifier: Apache-2.0
// Real chat templates outside the repository, given a conversation with tools.
#include "text/template_messages.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/text/jinja/template_input.hpp"
#include "tests/text/text_data.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

std::vector<ChatMessage> messages_in(const Json& context) {
  std::vector<ChatMessage> messages;
  for (const auto& given : context["messages"]) {
    ChatMessage message{.role = given["role"].get<std::string>(),
                        .content = given["content"].get<std::string>()};
    for (const auto& call : given.value("tool_calls", Json::array()))
      message.tool_calls.push_back({.id = call["id"].get<std::string>(),
                                    .name = call["function"]["name"].get<std::string>(),
                                    .arguments = call["function"]["arguments"].get<std::string>()});
    message.tool_call_id = given.value("tool_call_id", "");
    messages.push_back(std::move(message));
  }
  return messages;
}

Rendered render(const ChatTemplate& chat, const std::vector<ChatMessage>& messages,
                const std::string& tools) {
  ChatTemplateInput input;
  input.messages = template_messages(messages, chat.tool_dialect());
  if (!tools.empty() && chat.tool_dialect().shows_tools) input.tools = parse_client_json(tools).value();
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  return joined(chat.render(input));
}

}  // namespace

TEST_CASE("template data: a conversation with tools is rendered by whatever renders one without") {
  const auto directory = data_dir() / "chat_templates";
  if (is_data_missing(directory)) return;
  const Json context = Json::parse(file_text(directory / "minja_contexts" / "tool_use.json"));
  const auto messages = messages_in(context);
  std::map<std::string, std::size_t> counts;
  for (const auto* folder : {"templates", "templates_simple"}) {
    for (const auto& entry : std::filesystem::directory_iterator(directory / folder)) {
      CAPTURE(entry.path().filename().string());
      const auto chat = ChatTemplate::parse(file_text(entry.path()));
      const std::vector<ChatMessage> plain = {{.role = "user", .content = "a"},
                                              {.role = "assistant", .content = "b"},
                                              {.role = "user", .content = "c"}};
      if (render(chat, plain, "").is_error) {
        ++counts["refused without tools"];
        continue;
      }
      for (const std::string& tools : {std::string(), context["tools"].dump()}) {
        const auto rendered = render(chat, messages, tools);
        CHECK_FALSE_MESSAGE(rendered.is_error, rendered.text);
        for (const char* part : {"print('Hello, World!')", "stdout", "tautology", "condition", "brave_search",
                                 "what is truth anyway", "ask an LLM instead", "What now?"})
          CHECK_MESSAGE(rendered.text.find(part) != std::string::npos, part);
      }
      ++counts[chat.tool_dialect().shows_calls ? "calls" : "text"];
    }
  }
  CHECK(counts["calls"] >= 40);
  CHECK(counts["text"] >= 20);
}

}  // namespace troupe
