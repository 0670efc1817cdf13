// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "http/generation_fields.hpp"
#include "http/json_document.hpp"
#include "http/json_text.hpp"
#include "http/openai_api.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

std::string element(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

// Text parts joined by line breaks, as other servers do.
void read_content_parts(FieldReader& message, const json::array& parts, const Limits& limits,
                        std::string& content) {
  if (parts.size() > limits.max_content_parts) {
    return message.fail("content", " must have at most " + std::to_string(limits.max_content_parts) +
                                       " parts, got " + std::to_string(parts.size()));
  }
  for (std::size_t i = 0; i < parts.size() && !message.error(); ++i) {
    const std::string name = element("content", i);
    if (!parts[i].is_object()) return message.fail(name, "an object", parts[i]);
    FieldReader part(parts[i].get_object(), message.full_name(name) + ".");
    const auto type = part.string("type");
    if (!type) {
      part.fail("type", " is required");
    } else if (*type != "text") {
      part.fail("type", " must be \"text\": other content (\"" + std::string(shorten(*type, 32)) +
                            "\") is not supported");
    }
    const auto text = part.string("text");
    if (!text) part.fail("text", " is required");
    message.adopt(part);
    if (i > 0) content += '\n';
    content += text.value_or("");
  }
}

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
  const auto* content = message.find("content");
  if (content == nullptr) {
    if (out.role != "assistant") message.fail("content", " is required");
  } else if (content->is_string()) {
    out.content.assign(content->get_string().c_str(), content->get_string().size());
  } else if (content->is_array()) {
    read_content_parts(message, content->get_array(), limits, out.content);
  } else {
    message.fail("content", "a string or a list of text parts", *content);
  }
}

void read_messages(FieldReader& fields, const Limits& limits, std::vector<ChatMessage>& out) {
  const auto* value = fields.find("messages");
  if (value == nullptr) return fields.fail("messages", " is required");
  const std::string expectation =
      "a list of 1 to " + std::to_string(limits.max_messages) + " messages";
  if (!value->is_array()) return fields.fail("messages", expectation, *value);
  const auto& messages = value->get_array();
  if (messages.empty() || messages.size() > limits.max_messages) {
    return fields.fail("messages", expectation, *value);
  }
  out.resize(messages.size());
  for (std::size_t i = 0; i < messages.size() && !fields.error(); ++i) {
    const std::string name = element("messages", i);
    if (!messages[i].is_object()) return fields.fail(name, "an object", messages[i]);
    FieldReader message(messages[i].get_object(), name + ".");
    read_message(message, limits, out[i]);
    fields.adopt(message);
  }
}

}  // namespace

std::variant<ApiRequest, ApiError> parse_chat_request(std::string_view body,
                                                      const ServedModelInfo& model,
                                                      const Limits& limits) {
  const auto document = parse_json_object(body, limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  ApiRequest request;
  request.shape = ResponseShape::kChat;
  read_generation_fields(fields, {model, limits}, request);
  refuse_unsupported_fields(fields, request.shape);
  ChatPrompt prompt;
  read_messages(fields, limits, prompt.messages);
  prompt.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  if (fields.error()) return *fields.error();
  request.generation.prompt = std::move(prompt);
  return request;
}

}  // namespace troupe
