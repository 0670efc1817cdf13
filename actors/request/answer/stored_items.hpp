// SPDX-License-Identifier: Apache-2.0
// Messages of a turn as they are stored, and back. A message is stored by its
// role; calls and results as items of the Responses API, with their fields as a
// JSON object:
//
//   function_call           {"call_id": …, "name": …, "arguments": …}, and "namespace" if it has one
//   function_call_output    {"call_id": …, "output": …}
//   custom_tool_call        {"call_id": …, "name": …, "input": …}, so, too
//   reasoning               not JSON: the thoughts
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "actors/request/answer/answer_items.hpp"
#include "actors/request/prompt/tool_names.hpp"
#include "store/stored_response.hpp"
#include "text/chat_message.hpp"

namespace troupe {

inline constexpr std::string_view kFunctionCall = "function_call";
inline constexpr std::string_view kFunctionCallOutput = "function_call_output";

inline constexpr std::string_view kCustomToolCall = "custom_tool_call";
inline constexpr std::string_view kReasoningItem = "reasoning";

// An assistant's message with calls becomes several items.
void append_items(std::vector<StoredMessage>& items, const ChatMessage& message);
// A call joins the assistant's message before it.
void append_message(std::vector<ChatMessage>& messages, const StoredMessage& item);

// The answer of a turn whose tools have these names, and back.
void keep_answer(StoredResponse& response, AnswerItems items, const ToolNames& names);
AnswerItems answer_of(const StoredResponse& response);

}  // namespace troupe
