// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "http/api/requests/generation_fields.hpp"
#include "http/api/requests/message_fields.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/requests/thinking_fields.hpp"
#include "http/api/requests/tool_fields.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
constexpr std::array<std::string_view, 1> kTextParts = {"text"};

// As answers have it, or by vLLM's name. No field of OpenAI's: whatever else stands there is ignored.
std::string read_reasoning(FieldReader& message) {
  for (const char* name : {"reasoning_content", "reasoning"})
    if (const auto* value = message.find(name); value != nullptr && value->is_string())
      return message.string(name).value_or("");
  return {};
}

void read_message(FieldReader& message, const Limits& limits, ChatMessage& out) {
  const auto role = message.string("role");
  if (!role) {
    message.fail("role", " is required");
  } else if (std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    message.fail("role", " must be system, developer, user, assistant or tool");
  }
  out.role = role.value_or("");
  if (message.find("function_call") != nullptr)
    message.fail("function_call", " is not supported; use tool_calls");
  if (message.find("audio") != nullptr) message.fail("audio", " is not supported yet");
  read_tool_calls(message, limits, out);
  if (out.role == "tool") {
    out.tool_call_id = read_call_id(message, "tool_call_id");
    out.name = read_call_id(message, "name");
  }
  if (out.role == "assistant") out.reasoning = read_reasoning(message);
  // An assistant's message may be without.
  if (message.find("content") == nullptr && out.role == "assistant") return;
  read_content(message, "content", kTextParts, limits, out.content);
}

void read_messages(FieldReader& fields, const Limits& limits, std::vector<ChatMessage>& out) {
  read_message_list(
      fields, "messages", "messages", limits,
      {.begin = [&](std::size_t number) { out.resize(number); },
       .read = [&](FieldReader& message, std::size_t i) { read_message(message, limits, out[i]); }});
}

}  // namespace

void read_chat_prompt(FieldReader& fields, const ParseSettings& settings, ChatPrompt& prompt) {
  const Limits& limits = settings.limits;
  read_messages(fields, limits, prompt.messages);
  read_tools(fields, ToolShape::kNested, limits, prompt);
  prompt.splits_answer = true;
  read_reasoning_effort(fields, settings.model, prompt);
  read_template_variables(fields, prompt);
  prompt.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
}

std::variant<ApiRequest, ApiError> parse_chat_request(std::string_view body, const ServedModels& models,
                                                      const Limits& limits) {
  return parse_generation_request(
      body, models, limits, ResponseShape::kChat, [&](FieldReader& fields, ApiRequest& request) {
        auto& prompt = request.generation.prompt.emplace<ChatPrompt>();
        read_chat_prompt(fields, {models[request.generation.model], limits}, prompt);
        check_demand_alone(fields, request.generation);
      });
}

}  // namespace troupe
