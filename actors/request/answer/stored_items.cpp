// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/stored_items.hpp"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;
using Kind = AnswerItem::Kind;

// A text field of a stored item; empty where another release has left it out. The record's
// checksum was compared before.
std::string field(const Json& fields, const char* name) {
  if (!fields.is_object() || !fields.contains(name) || !fields[name].is_string()) return {};
  return fields[name].get<std::string>();
}

AnswerItem call_of(const StoredMessage& item) {
  const auto fields = Json::parse(item.content, nullptr, false);
  const bool is_custom = item.role == kCustomToolCall;
  return {.kind = Kind::kCall,
          .text = field(fields, is_custom ? "input" : "arguments"),
          .id = field(fields, "call_id"),
          .name = field(fields, "name"),
          .name_space = field(fields, "namespace"),
          .is_custom = is_custom};
}

ToolCall chat_call(AnswerItem call) {
  return {.id = std::move(call.id),
          .name = shown_name(call.name_space, call.name),
          .arguments = call.is_custom ? custom_arguments(call.text) : std::move(call.text)};
}

StoredMessage stored_call(const AnswerItem& call) {
  Json fields = {{"call_id", call.id}, {"name", call.name}};
  if (!call.name_space.empty()) fields["namespace"] = call.name_space;
  fields[call.is_custom ? "input" : "arguments"] = call.text;
  return {std::string(call.is_custom ? kCustomToolCall : kFunctionCall), fields.dump()};
}

StoredMessage stored_item(AnswerItem item) {
  switch (item.kind) {
    case Kind::kReasoning: return {std::string(kReasoningItem), std::move(item.text)};
    case Kind::kText: return {"assistant", std::move(item.text)};
    case Kind::kCall: break;
  }
  return stored_call(item);
}

AnswerItem answer_item(const StoredMessage& item) {
  if (item.role == kFunctionCall || item.role == kCustomToolCall) return call_of(item);
  const auto kind = item.role == kReasoningItem ? Kind::kReasoning : Kind::kText;
  return {.kind = kind, .text = item.content};
}

}  // namespace

void append_items(std::vector<StoredMessage>& items, const ChatMessage& message) {
  if (message.role == "tool") {
    const Json fields = {{"call_id", message.tool_call_id}, {"output", message.content}};
    return items.push_back({std::string(kFunctionCallOutput), fields.dump()});
  }
  if (!message.reasoning.empty()) items.push_back({std::string(kReasoningItem), message.reasoning});
  if (message.tool_calls.empty() || !message.content.empty())
    items.push_back({message.role, message.content});
  for (const auto& call : message.tool_calls)
    items.push_back(stored_call({.text = call.arguments, .id = call.id, .name = call.name}));
}

void append_message(std::vector<ChatMessage>& messages, const StoredMessage& item) {
  if (item.role == kFunctionCall || item.role == kCustomToolCall) {
    append_call(messages, chat_call(call_of(item)));
  } else if (item.role == kFunctionCallOutput) {
    const auto fields = Json::parse(item.content, nullptr, false);
    messages.push_back(
        {.role = "tool", .content = field(fields, "output"), .tool_call_id = field(fields, "call_id")});
  } else if (item.role == kReasoningItem) {
    messages.push_back({.role = "assistant", .reasoning = item.content});
  } else {
    append_text(messages, {.role = item.role, .content = item.content});
  }
}

void keep_answer(StoredResponse& response, AnswerItems items, const ToolNames& names) {
  items.name_calls(names);
  items.close();
  auto all = items.take();
  if (all.size() == 1 && all.front().kind == Kind::kText) {
    response.output = std::move(all.front().text);
    return;
  }
  for (AnswerItem& item : all) response.answer.push_back(stored_item(std::move(item)));
}

AnswerItems answer_of(const StoredResponse& response) {
  if (response.answer.empty())
    return AnswerItems(std::deque<AnswerItem>{AnswerItem{.text = response.output}});
  std::deque<AnswerItem> items;
  for (const auto& item : response.answer) items.push_back(answer_item(item));
  return AnswerItems(std::move(items));
}

}  // namespace troupe
