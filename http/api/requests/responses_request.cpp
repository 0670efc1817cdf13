// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses: what it asks for, and what its answer repeats of it.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "actors/request/answer/stored_items.hpp"
#include "http/api/answers/response_object.hpp"
#include "http/api/requests/generation_fields.hpp"
#include "http/api/requests/message_fields.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/requests/thinking_fields.hpp"
#include "http/api/requests/tool_fields.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxIdBytes = 128;
constexpr std::size_t kMaxMetadataPairs = 16;  // OpenAI's
constexpr std::size_t kMaxMetadataKey = 64;
constexpr std::size_t kMaxMetadataValue = 512;
constexpr std::size_t kMaxUserBytes = 512;
// Tools that the answer repeats: they are stored with each turn of a conversation.
constexpr std::size_t kMaxRepeatedTools = std::size_t{64} * 1024;
constexpr std::array<std::string_view, 4> kRoles = {"user", "assistant", "system", "developer"};
constexpr std::array<std::string_view, 3> kTextParts = {"input_text", "output_text", "text"};
// Calls that another server has made of its own tools: what they found is in the text behind them.
constexpr std::array<std::string_view, 5> kHostedItems = {
    "file_search_call", "image_generation_call", "tool_search_call", "tool_search_output", "web_search_call"};
constexpr std::array<std::string_view, 2> kReasoningParts = {"reasoning_text", "summary_text"};

std::string_view text_of(const json::string& text) { return {text.data(), text.size()}; }

ChatMessage read_message_item(FieldReader& item, const Limits& limits) {
  ChatMessage message{.role = item.string("role").value_or("")};
  if (std::find(kRoles.begin(), kRoles.end(), message.role) == kRoles.end())
    item.fail("role", " must be user, assistant, system or developer");
  read_content(item, "content", kTextParts, limits, message.content);
  return message;
}

ChatMessage read_result_item(FieldReader& item, const Limits& limits) {
  ChatMessage message{.role = "tool", .tool_call_id = read_call_id(item, "call_id")};
  if (message.tool_call_id.empty()) item.fail("call_id", " is required");
  read_content(item, "output", kTextParts, limits, message.content);
  return message;
}

// Thoughts of an earlier answer: as they were, or only their summary.
ChatMessage read_reasoning_item(FieldReader& item, const Limits& limits) {
  ChatMessage message{.role = "assistant"};
  const auto* content = item.find("content");
  const bool has_content = content != nullptr && !(content->is_array() && content->get_array().empty());
  const auto* summary = item.find("summary");
  if (has_content) {
    read_content(item, "content", kReasoningParts, limits, message.reasoning);
  } else if (summary != nullptr) {
    read_content(item, "summary", kReasoningParts, limits, message.reasoning);
  }
  return message;
}

void read_item(FieldReader& item, const Limits& limits, std::vector<ChatMessage>& messages) {
  const auto type = item.string("type").value_or("message");
  if (type == "message") {
    append_text(messages, read_message_item(item, limits));
  } else if (type == kReasoningItem) {
    auto thoughts = read_reasoning_item(item, limits);
    if (!thoughts.reasoning.empty()) messages.push_back(std::move(thoughts));
  } else if (type == kCustomToolCall) {
    append_call(messages, read_custom_call_item(item));
  } else if (type == kFunctionCall) {
    append_call(messages, read_call_item(item));
  } else if (type == kFunctionCallOutput || type == "custom_tool_call_output") {
    messages.push_back(read_result_item(item, limits));
  } else if (std::find(kHostedItems.begin(), kHostedItems.end(), type) != kHostedItems.end()) {
    return;
  } else {
    item.fail(
        "type",
        " must be message, reasoning, or a call of a function or custom tool or its output: other items (\"" +
            std::string(shorten(type, 32)) + "\") are not supported");
  }
}

void read_input(FieldReader& fields, const Limits& limits, std::vector<ChatMessage>& messages) {
  const auto* input = fields.find("input");
  if (input != nullptr && input->is_string()) {
    messages.push_back({.role = "user", .content = std::string(text_of(input->get_string()))});
    return;
  }
  read_message_list(fields, "input", "items, or a string", limits,
                    {.begin = [&](std::size_t number) { messages.reserve(number); },
                     .read = [&](FieldReader& item, std::size_t) { read_item(item, limits, messages); }});
  // Thoughts that lead to nothing.
  std::erase_if(messages, has_only_reasoning);
  if (messages.empty() && !fields.error()) fields.fail("input", " must have a message, a call or a result");
}

// The metadata as JSON.
std::string read_metadata(FieldReader& fields) {
  const auto* value = fields.find("metadata");
  if (value == nullptr) return "{}";
  const auto refuse = [&](std::string_view sentence) {
    fields.fail("metadata", sentence);
    return std::string("{}");
  };
  if (!value->is_object() || value->get_object().size() > kMaxMetadataPairs)
    return refuse(" must be an object of at most 16 pairs");
  std::string out = "{";
  for (const auto& pair : value->get_object()) {
    const std::string_view key(pair.key().data(), pair.key().size());
    if (key.size() > kMaxMetadataKey) return refuse(" must have keys of at most 64 bytes");
    if (!pair.value().is_string() || pair.value().get_string().size() > kMaxMetadataValue)
      return refuse(" must have strings of at most 512 bytes as values");
    if (out.size() > 1) out += ",";
    append_json_string(out, key);
    out += ":";
    append_json_string(out, text_of(pair.value().get_string()));
  }
  return out + "}";
}

// As they came, without those that are ignored; long ones are left out.
std::string repeated_tools(FieldReader& fields) {
  const auto* tools = fields.find("tools");
  if (tools == nullptr || !tools->is_array()) return "[]";
  json::array used;
  for (const auto& tool : tools->get_array())
    if (!tool.is_object() || !is_hosted_tool(tool.get_object(), ToolShape::kFlat)) used.push_back(tool);
  std::string text = json::serialize(used);
  return text.size() <= kMaxRepeatedTools ? text : "[]";
}

// What the answer repeats: settings of the request, as it was understood.
std::string settings_json(FieldReader& fields, const GenerationRequest& generation) {
  std::string out = "\"tools\":" + repeated_tools(fields);
  out += ",\"max_output_tokens\":";
  if (generation.max_tokens) {
    append_json_integer(out, *generation.max_tokens);
  } else {
    out += "null";
  }
  out += ",\"metadata\":" + read_metadata(fields);
  out += ",\"temperature\":";
  append_json_number(out, generation.sampling.temperature);
  out += ",\"top_logprobs\":";
  append_json_integer(out, std::max(0, generation.sampling.top_logprobs));
  out += ",\"top_p\":";
  append_json_number(out, generation.sampling.top_p);
  const auto user = fields.string("user");
  if (user && user->size() > kMaxUserBytes) fields.fail("user", " must be at most 512 bytes");
  out += ",\"user\":" + (user ? json_string(*user) : "null");
  return out;
}

void read_turn(FieldReader& fields, ConversationTurn& turn) {
  turn.instructions = fields.string("instructions").value_or("");
  turn.previous = fields.string("previous_response_id").value_or("");
  if (turn.previous.size() > kMaxIdBytes) fields.fail("previous_response_id", " must be at most 128 bytes");
  const auto store = fields.boolean("store");
  turn.is_stored = store.value_or(true);
  turn.must_be_stored = store.value_or(false);
}

// It is answered also if its client goes, so it has to be kept.
void read_background(FieldReader& fields, GenerationRequest& generation, ConversationTurn& turn) {
  if (!fields.boolean("background").value_or(false)) return;
  if (!turn.is_stored) return fields.fail("background", " must be false with \"store\": false");
  turn.must_be_stored = true;
  generation.background = std::make_shared<const BackgroundRun>();
}

}  // namespace

std::variant<ApiRequest, ApiError> parse_responses_request(std::string_view body, const ServedModels& models,
                                                           const Limits& limits) {
  return parse_generation_request(
      body, models, limits, ResponseShape::kResponse, [&](FieldReader& fields, ApiRequest& request) {
        auto& prompt = request.generation.prompt.emplace<ChatPrompt>();
        read_input(fields, limits, prompt.messages);
        prompt.splits_answer = true;
        read_reasoning(fields, models[request.generation.model], prompt);
        ConversationTurn turn;
        turn.tool_names = read_tools(fields, ToolShape::kFlat, limits, prompt);
        check_demand_alone(fields, request.generation);
        read_turn(fields, turn);
        read_background(fields, request.generation, turn);
        turn.settings =
            tool_choice_json(prompt, turn.tool_names) + "," + settings_json(fields, request.generation);
        if (request.generation.background) turn.settings += kBackgroundMember;
        request.generation.turn = std::make_shared<const ConversationTurn>(std::move(turn));
      });
}

}  // namespace troupe
