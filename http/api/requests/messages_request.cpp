// SPDX-License-Identifier: Apache-2.0
// POST /v1/messages, Anthropic's API, and how many tokens such a body has: a view
// of the same requests that chats make. Its messages are lists of blocks; a user's
// may hold results of tools, which are messages of their own for chat templates.
#include <array>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "http/api/requests/generation_fields.hpp"
#include "http/api/requests/message_fields.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/requests/tool_fields.hpp"
#include "http/json/json_document.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 1> kTextBlocks = {"text"};
// Claude Code's first system block: it says nothing to a model and differs from request
// to request, so that no beginning of a prompt would ever be found again.
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";

void add_text(std::string& content, std::string_view text) {
  if (!content.empty()) content += '\n';
  content += text;
}

// The chat messages that one message of the body becomes, in this order.
struct ReadMessage {
  std::vector<ChatMessage> results;  // of tools
  ChatMessage message;
};

void read_result_block(FieldReader& block, const Limits& limits, std::vector<ChatMessage>& results) {
  ChatMessage result{.role = "tool", .tool_call_id = read_call_id(block, "tool_use_id")};
  if (result.tool_call_id.empty()) block.fail("tool_use_id", " is required");
  if (block.find("content") != nullptr) read_content(block, "content", kTextBlocks, limits, result.content);
  if (block.boolean("is_error").value_or(false)) result.content = "Error: " + result.content;
  results.push_back(std::move(result));
}

void read_block(FieldReader& block, const Limits& limits, ReadMessage& out) {
  const auto type = block.string("type");
  const bool is_assistant = out.message.role == "assistant";
  if (!type) {
    block.fail("type", " is required");
  } else if (*type == "text") {
    if (block.find("text") == nullptr) block.fail("text", " is required");
    add_text(out.message.content, block.string("text").value_or(""));
  } else if (*type == "tool_use" && is_assistant) {
    out.message.tool_calls.push_back(read_call_block(block));
  } else if (*type == "tool_result" && !is_assistant) {
    read_result_block(block, limits, out.results);
  } else if (*type == "thinking" && is_assistant) {
    out.message.reasoning += block.string("thinking").value_or("");
  } else if (*type == "redacted_thinking" && is_assistant) {
    return;  // of another server, which alone can read it
  } else {
    block.fail("type", " must be text, tool_use or tool_result: other blocks (\"" +
                           std::string(shorten(*type, 32)) + "\") are not supported here");
  }
}

void read_blocks(FieldReader& message, const json::array& blocks, const Limits& limits, ReadMessage& out) {
  if (blocks.size() > limits.max_content_parts + limits.max_tools)
    return message.fail("content", " must have at most " +
                                       std::to_string(limits.max_content_parts + limits.max_tools) +
                                       " blocks, got " + std::to_string(blocks.size()));
  for (std::size_t i = 0; i < blocks.size() && !message.error(); ++i) {
    const std::string name = "content[" + std::to_string(i) + "]";
    if (!blocks[i].is_object()) return message.fail(name, "an object", blocks[i]);
    FieldReader block(blocks[i].get_object(), message.full_name(name) + ".");
    read_block(block, limits, out);
    message.adopt(block);
  }
}

void read_message(FieldReader& message, const Limits& limits, std::vector<ChatMessage>& messages) {
  ReadMessage out;
  out.message.role = message.string("role").value_or("");
  if (out.message.role != "user" && out.message.role != "assistant" && out.message.role != "system")
    message.fail("role", " must be user, assistant or system");
  const auto* content = message.find("content");
  if (content == nullptr) {
    message.fail("content", " is required");
  } else if (content->is_string()) {
    out.message.content.assign(content->get_string().data(), content->get_string().size());
  } else if (content->is_array()) {
    read_blocks(message, content->get_array(), limits, out);
  } else {
    message.fail("content", "a string or a list of blocks", *content);
  }
  const bool has_only_results =
      !out.results.empty() && out.message.content.empty() && out.message.tool_calls.empty();
  for (ChatMessage& result : out.results) messages.push_back(std::move(result));
  if (!has_only_results) messages.push_back(std::move(out.message));
}

void read_messages(FieldReader& fields, const Limits& limits, std::vector<ChatMessage>& messages) {
  read_message_list(
      fields, "messages", "messages", limits,
      {.begin = [&](std::size_t number) { messages.reserve(messages.size() + number); },
       .read = [&](FieldReader& message, std::size_t) { read_message(message, limits, messages); }});
  if (fields.error() || messages.back().role != "assistant") return;
  fields.fail("messages", " must not end with the assistant's: an answer that was begun can't be continued");
}

void read_system(FieldReader& fields, const Limits& limits, std::vector<ChatMessage>& messages) {
  const auto* system = fields.find("system");
  if (system == nullptr) return;
  ChatMessage message{.role = "system"};
  if (!system->is_array()) {
    read_content(fields, "system", kTextBlocks, limits, message.content);
  } else {
    for (std::size_t i = 0; i < system->get_array().size() && !fields.error(); ++i) {
      const auto& value = system->get_array()[i];
      const std::string name = "system[" + std::to_string(i) + "]";
      if (!value.is_object()) return fields.fail(name, "an object", value);
      FieldReader block(value.get_object(), name + ".");
      const auto text = block.string("text").value_or("");
      if (block.string("type") != "text") block.fail("type", " must be text");
      fields.adopt(block);
      if (!text.starts_with(kBillingHeader)) add_text(message.content, text);
    }
  }
  if (!message.content.empty()) messages.push_back(std::move(message));
}

// A wish, which a model that thinks follows in its own way, if its template can be told.
void read_thinking(FieldReader& fields, const ServedModelInfo& model, ChatPrompt& prompt) {
  const auto* value = fields.find("thinking");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail("thinking", "an object", *value);
  FieldReader thinking(value->get_object(), "thinking.");
  if (thinking.find("type") == nullptr) thinking.fail("type", " is required");
  const auto type = thinking.string("type");
  fields.adopt(thinking);
  if (type && model.switches_reasoning) prompt.thinks = *type != "disabled";
}

void read_chat(FieldReader& fields, const ParseSettings& settings, ChatPrompt& prompt) {
  const Limits& limits = settings.limits;
  read_system(fields, limits, prompt.messages);
  if (!fields.error()) read_messages(fields, limits, prompt.messages);
  read_tools(fields, ToolShape::kMessages, limits, prompt);
  prompt.splits_answer = true;
  read_thinking(fields, settings.model, prompt);
}

}  // namespace

std::variant<ApiRequest, ApiError> parse_messages_request(std::string_view body, const ServedModels& models,
                                                          const Limits& limits) {
  return parse_generation_request(body, models, limits, ResponseShape::kMessage,
                                  [&](FieldReader& fields, ApiRequest& request) {
                                    read_chat(fields, {models[request.generation.model], limits},
                                              request.generation.prompt.emplace<ChatPrompt>());
                                    check_demand_alone(fields, request.generation);
                                  });
}

std::variant<ApiTokenRequest, ApiError> parse_count_tokens_request(std::string_view body,
                                                                   const ServedModels& models,
                                                                   const Limits& limits) {
  const auto document = parse_json_object(body, limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  ApiTokenRequest request{.generation = {}, .answer = ApiTokenRequest::Answer::kCount};
  request.generation.use = PromptUse::kEncode;
  request.generation.model = read_model(fields, models, ModelTask::kGenerate);
  if (!fields.error())
    read_chat(fields, {models[request.generation.model], limits},
              request.generation.prompt.emplace<ChatPrompt>());
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace troupe
