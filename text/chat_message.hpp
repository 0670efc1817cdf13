// SPDX-License-Identifier: Apache-2.0
// A message of a chat as clients send it: plain values.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

// A function that the assistant called.
struct ToolCall {
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // JSON, as a model wrote it: it may be none
  bool operator==(const ToolCall&) const = default;
};

struct ChatMessage {
  std::string role = {};                  // system, developer, user, assistant, tool
  std::string content = {};               // parts joined
  std::vector<ToolCall> tool_calls = {};  // an assistant's
  // A tool's: the call that it answers, and its function; both may be empty.
  std::string tool_call_id = {};
  std::string name = {};
  std::string reasoning = {};  // an assistant's, before its content
  bool operator==(const ChatMessage&) const = default;
};

// An assistant's thoughts alone: what was thought belongs to the text or calls behind it.
inline bool has_only_reasoning(const ChatMessage& message) {
  return message.role == "assistant" && !message.reasoning.empty() && message.content.empty() &&
         message.tool_calls.empty();
}

// A text joins the thoughts right before it, or is a message by itself.
inline void append_text(std::vector<ChatMessage>& messages, ChatMessage text) {
  if (text.role != "assistant" || messages.empty() || !has_only_reasoning(messages.back()))
    return messages.push_back(std::move(text));
  messages.back().content = std::move(text.content);
}

// A call belongs to the assistant's message right before it, or is a message by itself.
inline void append_call(std::vector<ChatMessage>& messages, ToolCall call) {
  if (messages.empty() || messages.back().role != "assistant") messages.push_back({.role = "assistant"});
  messages.back().tool_calls.push_back(std::move(call));
}

// All that a client wrote in it.
inline std::size_t text_bytes(const ChatMessage& message) {
  std::size_t bytes = message.role.size() + message.content.size() + message.tool_call_id.size() +
                      message.name.size() + message.reasoning.size();
  for (const auto& call : message.tool_calls)
    bytes += call.id.size() + call.name.size() + call.arguments.size();
  return bytes;
}

}  // namespace troupe
