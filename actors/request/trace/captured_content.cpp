// SPDX-License-Identifier: Apache-2.0
#include "actors/request/trace/captured_content.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::size_t kFrameBytes = 64;  // about the JSON around an empty message or call

// Text may end in mid-character where it was cut.
std::string json_text(const json& messages) {
  return messages.dump(-1, ' ', false, json::error_handler_t::replace);
}

json text_part(std::string_view text) { return {{"type", "text"}, {"content", text}}; }

// As much of a text as is left.
std::string_view take(std::string_view text, std::size_t& left) {
  const std::string_view taken = text.substr(0, left);
  left -= taken.size();
  return taken;
}

// False: there is no room for the frame of a message or of a call.
bool take_frame(std::size_t& left) {
  if (left <= kFrameBytes) return false;
  left -= kFrameBytes;
  return true;
}

json call_json(const ToolCall& call, std::size_t& left) {
  json part = {{"type", "tool_call"}};
  part["id"] = take(call.id, left);
  part["name"] = take(call.name, left);
  part["arguments"] = take(call.arguments, left);
  return part;
}

// A tool's answer to a call.
json response_json(const ChatMessage& message, std::size_t& left) {
  json part = {{"type", "tool_call_response"}};
  part["id"] = take(message.tool_call_id, left);
  part["response"] = take(message.content, left);
  return part;
}

json message_json(const ChatMessage& message, std::size_t& left) {
  json parts = json::array();
  const std::string_view role = take(message.role, left);
  if (message.role == "tool") {
    if (take_frame(left)) parts.push_back(response_json(message, left));
    return {{"role", role}, {"parts", std::move(parts)}};
  }
  if (!message.reasoning.empty() && take_frame(left))
    parts.push_back({{"type", "reasoning"}, {"content", take(message.reasoning, left)}});
  if (!message.content.empty()) parts.push_back(text_part(take(message.content, left)));
  for (const ToolCall& call : message.tool_calls) {
    if (!take_frame(left)) break;
    parts.push_back(call_json(call, left));
  }
  return {{"role", role}, {"parts", std::move(parts)}};
}

json chat_json(const ChatPrompt& chat) {
  std::vector<json> last_first;
  std::size_t left = kMaxCapturedBytes;
  for (auto message = chat.messages.rbegin(); message != chat.messages.rend() && take_frame(left); ++message)
    last_first.push_back(message_json(*message, left));
  std::reverse(last_first.begin(), last_first.end());
  return last_first;
}

}  // namespace

std::string input_messages(const GenerationRequest& request) {
  if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt)) return json_text(chat_json(*chat));
  const auto* prompt = std::get_if<TextPrompt>(&request.prompt);
  if (prompt == nullptr) return "";
  const json part = text_part(std::string_view(prompt->text).substr(0, kMaxCapturedBytes));
  return json_text(json::array({{{"role", "user"}, {"parts", json::array({part})}}}));
}

std::string output_messages(const std::string& answer, std::string_view finish_reason) {
  const json part = text_part(answer);
  return json_text(json::array(
      {{{"role", "assistant"}, {"parts", json::array({part})}, {"finish_reason", finish_reason}}}));
}

}  // namespace troupe
