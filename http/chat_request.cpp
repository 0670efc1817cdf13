// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "http/generation_fields.hpp"
#include "http/message_fields.hpp"
#include "http/openai_api.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
constexpr std::array<std::string_view, 1> kTextParts = {"text"};

void read_message(FieldReader& message, const Limits& limits, ChatMessage& out) {
  const auto role = message.string("role");
  if (!role) {
    message.fail("role", " is required");
  } else if (std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    message.fail("role", " must be system, developer, user, assistant or tool");
  }
  out.role = role.value_or("");
  for (const std::string_view calls : {"tool_calls", "function_call", "audio"}) {
    const auto* value = message.find(calls);
    const bool is_empty = value == nullptr || (value->is_array() && value->get_array().empty());
    if (!is_empty) message.fail(calls, " is not supported yet");
  }
  // An assistant's message may be without.
  if (message.find("content") == nullptr && out.role == "assistant") return;
  read_content(message, kTextParts, limits, out.content);
}

void read_messages(FieldReader& fields, const Limits& limits, std::vector<ChatMessage>& out) {
  read_message_list(
      fields, "messages", "messages", limits,
      {.begin = [&](std::size_t number) { out.resize(number); },
       .read = [&](FieldReader& message, std::size_t i) { read_message(message, limits, out[i]); }});
}

}  // namespace

std::variant<ApiRequest, ApiError> parse_chat_request(std::string_view body, const ServedModelInfo& model,
                                                      const Limits& limits) {
  ApiRequest defaults;
  defaults.shape = ResponseShape::kChat;
  return parse_generation_request(
      body, {model, limits}, std::move(defaults), [&](FieldReader& fields, ApiRequest& request) {
        auto& prompt = request.generation.prompt.emplace<ChatPrompt>();
        read_messages(fields, limits, prompt.messages);
        prompt.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
      });
}

}  // namespace troupe
