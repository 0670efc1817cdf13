// SPDX-License-Identifier: Apache-2.0
#include "text/template_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "text/answer/written_calls.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"
#include "text/stable_hash.hpp"

namespace troupe {
namespace {

constexpr std::size_t kShortIdBytes = 9;
constexpr std::string_view kLettersAndDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

// The same id gives the same short one; a short one stays.
std::string short_id(const std::string& id) {
  const bool is_short =
      id.size() == kShortIdBytes && id.find_first_not_of(kLettersAndDigits) == std::string::npos;
  if (is_short) return id;
  std::string out;
  for (auto hash = stable_hash(id); out.size() < kShortIdBytes; hash /= kLettersAndDigits.size())
    out += kLettersAndDigits[hash % kLettersAndDigits.size()];
  return out;
}

TemplateValue id_value(const std::string& id, const CallForm& form) {
  return TemplateValue::input(form.has_short_ids ? short_id(id) : id);
}

// A call without arguments may come as "".
std::string_view arguments_of(const ToolCall& call) {
  return call.arguments.empty() ? "{}" : std::string_view(call.arguments);
}

TemplateValue arguments_value(const ToolCall& call, const CallForm& form) {
  const auto text = arguments_of(call);
  if (!form.has_text_arguments) {
    auto value = parse_client_json(text);
    if (value && std::holds_alternative<TemplateValue::Object>(value->variant())) return std::move(*value);
  }
  auto plain = TemplateValue::input(std::string(text));
  if (form.needs_object) return TemplateValue::Object{{"arguments", plain}};
  return plain;
}

// The thoughts under the name that templates know; most show them only within a loop of tools.
void add_reasoning(TemplateValue::Object& out, const ChatMessage& message) {
  if (!message.reasoning.empty())
    out.emplace_back("reasoning_content", TemplateValue::borrowed_input(message.reasoning));
}

TemplateValue plain_message(const ChatMessage& message) {
  auto out = chat_message_with(message.role, TemplateValue::borrowed_input(message.content));
  add_reasoning(out, message);
  return out;
}

// Of a message that was made for the template, and does not outlive this.
TemplateValue own_message(ChatMessage message) {
  auto out = chat_message_with(message.role, TemplateValue::input(std::move(message.content)));
  if (!message.reasoning.empty())
    out.emplace_back("reasoning_content", TemplateValue::input(std::move(message.reasoning)));
  return out;
}

TemplateValue call_value(const ToolCall& call, const CallForm& form) {
  return TemplateValue::Object{
      {"id", id_value(call.id, form)},
      {"type", TemplateValue::trusted("function")},
      {"function", TemplateValue::Object{{"name", TemplateValue::input(call.name)},
                                         {"arguments", arguments_value(call, form)}}}};
}

// Text that the template would drop beside calls is a message of its own. Members are
// moved in one by one: a list in braces would copy them.
void append_calling(TemplateValue::Array& out, const ChatMessage& message, const ToolDialect& dialect) {
  const bool is_split = !message.content.empty() && !dialect.shows_text_beside_calls;
  if (is_split) out.push_back(plain_message(message));
  const bool is_empty = is_split || message.content.empty();
  const auto content = is_empty ? TemplateValue::input("") : TemplateValue::borrowed_input(message.content);
  const bool is_null = is_empty && dialect.form.has_null_content;
  TemplateValue::Array calls;
  for (const auto& call : message.tool_calls) calls.push_back(call_value(call, dialect.form));
  TemplateValue::Object calling;
  calling.emplace_back("role", TemplateValue::trusted("assistant"));
  calling.emplace_back("content", is_null ? TemplateValue() : content);
  calling.emplace_back("tool_calls", std::move(calls));
  if (!is_split) add_reasoning(calling, message);
  out.push_back(std::move(calling));
}

TemplateValue result_message(const ChatMessage& message, const std::string& call_id, const std::string& name,
                             const CallForm& form) {
  TemplateValue::Object result;
  result.emplace_back("role", TemplateValue::trusted("tool"));
  result.emplace_back("content", TemplateValue::borrowed_input(message.content));
  result.emplace_back("tool_call_id", id_value(call_id, form));
  result.emplace_back("name", TemplateValue::input(name));
  return result;
}

void append_line(std::string& text, const std::string& line) {
  if (!text.empty()) text += '\n';
  text += line;
}

std::string call_text(const ToolCall& call) {
  const bool is_json = parse_client_json(arguments_of(call)).has_value();
  const std::string arguments =
      is_json ? std::string(arguments_of(call)) : nlohmann::json(call.arguments).dump();
  return "<tool_call>\n{\"name\": " + nlohmann::json(call.name).dump() + ", \"arguments\": " + arguments +
         "}\n</tool_call>";
}

ChatMessage with_text_for_calls(const ChatMessage& message) {
  ChatMessage out{.role = message.role, .content = message.content, .reasoning = message.reasoning};
  for (const auto& call : message.tool_calls) append_line(out.content, call_text(call));
  return out;
}

std::string result_text(const ChatMessage& message) {
  return "<tool_response>\n" + message.content + "\n</tool_response>";
}

// Results and what the user says next are one message: many templates insist
// that user and assistant take turns.
TemplateValue::Array without_tools(const std::vector<ChatMessage>& messages) {
  TemplateValue::Array out;
  std::optional<ChatMessage> results;
  const auto end_results = [&] {
    if (auto ended = std::exchange(results, std::nullopt)) out.push_back(own_message(*std::move(ended)));
  };
  bool continues_results = false;
  for (const auto& message : messages) {
    const bool is_result = message.role == "tool";
    const bool joins_results = continues_results && (is_result || message.role == "user");
    if (!joins_results) end_results();
    if (is_result || joins_results) {
      if (!results) results.emplace(ChatMessage{.role = "user"});
      append_line(results->content, is_result ? result_text(message) : message.content);
    } else {
      out.push_back(message.tool_calls.empty() ? plain_message(message)
                                               : own_message(with_text_for_calls(message)));
    }
    continues_results = is_result;
  }
  end_results();
  return out;
}

// Numbers go through the whole chat. A result has the number of its call.
TemplateValue::Array with_written_calls(const std::vector<ChatMessage>& messages, const CallFormat& format) {
  TemplateValue::Array out;
  std::map<std::string_view, std::pair<std::string, std::string>> calls;  // name and number, by id
  std::uint32_t num_calls = 0;
  for (const auto& message : messages) {
    if (message.role == "tool") {
      const auto& [name, written_id] = calls[message.tool_call_id];
      out.push_back(result_message(message, written_id.empty() ? message.tool_call_id : written_id,
                                   message.name.empty() ? name : message.name, {}));
      continue;
    }
    if (message.tool_calls.empty()) {
      out.push_back(plain_message(message));
      continue;
    }
    MarkedString content(message.content, true);
    content.append(written_calls(message.tool_calls, format, num_calls));
    for (const ToolCall& call : message.tool_calls)
      calls[call.id] = {call.name, written_call_id(call, format, num_calls++)};
    TemplateValue::Object calling{{"role", TemplateValue::trusted("assistant")},
                                  {"content", TemplateValue::mixed(std::move(content))}};
    add_reasoning(calling, message);
    out.push_back(std::move(calling));
  }
  return out;
}

}  // namespace

TemplateValue::Array template_messages(const std::vector<ChatMessage>& messages, const ToolDialect& dialect) {
  if (dialect.written) return with_written_calls(messages, *dialect.written);
  if (!dialect.shows_calls) return without_tools(messages);
  TemplateValue::Array out;
  std::map<std::string_view, std::string_view> names;  // of functions, by the ids of their calls
  for (const auto& message : messages) {
    for (const auto& call : message.tool_calls) names[call.id] = call.name;
    if (message.role == "tool") {
      const auto name = message.name.empty() ? std::string(names[message.tool_call_id]) : message.name;
      out.push_back(result_message(message, message.tool_call_id, name, dialect.form));
    } else if (message.tool_calls.empty()) {
      out.push_back(plain_message(message));
    } else {
      append_calling(out, message, dialect);
    }
  }
  return out;
}

}  // namespace troupe
