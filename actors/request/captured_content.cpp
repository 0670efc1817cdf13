// SPDX-License-Identifier: Apache-2.0
#include "actors/request/captured_content.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using nlohmann::json;

// Text may end in mid-character where it was cut.
std::string text_of(const json& messages) {
  return messages.dump(-1, ' ', false, json::error_handler_t::replace);
}

json text_part(std::string_view text) { return {{"type", "text"}, {"content", text}}; }

json message_json(const ChatMessage& message, std::size_t max_bytes) {
  json parts = json::array();
  if (!message.content.empty())
    parts.push_back(text_part(std::string_view(message.content).substr(0, max_bytes)));
  for (const ToolCall& call : message.tool_calls)
    parts.push_back({{"type", "tool_call"},
                     {"id", call.id},
                     {"name", call.name},
                     {"arguments", std::string_view(call.arguments).substr(0, max_bytes)}});
  return {{"role", message.role}, {"parts", std::move(parts)}};
}

std::size_t num_bytes(const ChatMessage& message) {
  std::size_t bytes = message.content.size();
  for (const ToolCall& call : message.tool_calls) bytes += call.arguments.size();
  return bytes;
}

json chat_json(const ChatPrompt& chat) {
  std::vector<json> last_first;
  std::size_t left = kMaxCapturedBytes;
  for (auto message = chat.messages.rbegin(); message != chat.messages.rend() && left > 0; ++message) {
    last_first.push_back(message_json(*message, left));
    left -= std::min(left, num_bytes(*message));
  }
  std::reverse(last_first.begin(), last_first.end());
  return last_first;
}

}  // namespace

std::string input_messages(const GenerationRequest& request) {
  if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt)) return text_of(chat_json(*chat));
  const auto* prompt = std::get_if<TextPrompt>(&request.prompt);
  if (prompt == nullptr) return "";
  const json part = text_part(std::string_view(prompt->text).substr(0, kMaxCapturedBytes));
  return text_of(json::array({{{"role", "user"}, {"parts", json::array({part})}}}));
}

std::string output_messages(const std::string& answer, std::string_view finish_reason) {
  const json part = text_part(answer);
  return text_of(json::array(
      {{{"role", "assistant"}, {"parts", json::array({part})}, {"finish_reason", finish_reason}}}));
}

}  // namespace troupe
