// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/response_object.hpp"

#include <span>

#include "http/api/answers/response_json.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

constexpr std::string_view kResponsePrefix = "resp_";
constexpr std::string_view kToolChoiceMember = "\"tool_choice\":";
constexpr std::string_view kToolsMember = ",\"tools\":[";  // of ConversationTurn::settings

void append_string_or_null(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

void append_response_usage(std::string& out, const Usage& usage) {
  out += "{\"input_tokens\":";
  append_json_integer(out, usage.prompt_tokens);
  out += ",\"input_tokens_details\":{\"cached_tokens\":";
  append_json_integer(out, usage.cached_tokens);
  out += "},\"output_tokens\":";
  append_json_integer(out, usage.completion_tokens);
  out += ",\"output_tokens_details\":{\"reasoning_tokens\":";
  append_json_integer(out, usage.reasoning_tokens);
  out += "},\"total_tokens\":";
  append_json_integer(out, std::int64_t{usage.prompt_tokens} + usage.completion_tokens);
  out += "}";
}

// The API has its own short list of codes, by which the cause is known.
void append_response_error(std::string& out, const HttpError& error) {
  out += "{\"code\":";
  append_json_string(out, error.status == 429 ? "rate_limit_exceeded" : "server_error");
  out += ",\"message\":";
  append_json_string(out, error.message);
  out += "}";
}

std::string_view without_prefix(std::string_view response_id) {
  if (response_id.starts_with(kResponsePrefix)) response_id.remove_prefix(kResponsePrefix.size());
  return response_id;
}

std::string_view id_prefix(const AnswerItem& item) {
  switch (item.kind) {
    case AnswerItem::Kind::kReasoning: return "rs_";
    case AnswerItem::Kind::kText: return "msg_";
    case AnswerItem::Kind::kCall: break;
  }
  return item.is_custom ? "ctc_" : "fc_";
}

std::string_view type_of(const AnswerItem& item) {
  switch (item.kind) {
    case AnswerItem::Kind::kReasoning: return "reasoning";
    case AnswerItem::Kind::kText: return "message";
    case AnswerItem::Kind::kCall: break;
  }
  return item.is_custom ? "custom_tool_call" : "function_call";
}

// The thoughts as they are: nothing makes a summary of them.
void append_reasoning_members(AnswerJson& json, const OutputItemView& view) {
  std::string& out = json.out();
  out += "\"summary\":[],\"content\":[";
  if (view.has_content) {
    out += "{\"type\":\"reasoning_text\",\"text\":";
    json.text(view.item->text);
    out += "}";
  }
  out += "]";
}

void append_message_members(AnswerJson& json, const OutputItemView& view) {
  std::string& out = json.out();
  out += "\"role\":\"assistant\",\"content\":[";
  if (view.has_content)
    append_output_text(
        json, view.item->text,
        view.has_tokens ? std::span<const AnswerToken>(view.item->tokens) : std::span<const AnswerToken>());
  out += "]";
}

void append_call_members(AnswerJson& json, const AnswerItem& call) {
  std::string& out = json.out();
  out += "\"call_id\":";
  append_json_string(out, call.id);
  out += ",\"name\":";
  append_json_string(out, call.name);
  if (!call.name_space.empty()) {
    out += ",\"namespace\":";
    append_json_string(out, call.name_space);
  }
  out += call.is_custom ? ",\"input\":" : ",\"arguments\":";
  json.text(call.text);
}

void append_output(AnswerJson& json, const ResponseView& response) {
  json.out() += "[";
  const auto& items = response.answer->all();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) json.out() += ",";
    append_output_item(json, {.response_id = response.id,
                              .index = i,
                              .item = &items[i],
                              .status = i + 1 < items.size() ? ResponseStatus::kCompleted : response.status,
                              .has_tokens = true});
  }
  json.out() += "]";
}

}  // namespace

std::string_view name_of(ResponseStatus status) {
  switch (status) {
    case ResponseStatus::kQueued: return "queued";
    case ResponseStatus::kInProgress: return "in_progress";
    case ResponseStatus::kCompleted: return "completed";
    case ResponseStatus::kIncomplete: return "incomplete";
    case ResponseStatus::kCancelled: return "cancelled";
    case ResponseStatus::kFailed: break;
  }
  return "failed";
}

ResponseStatus status_of(FinishReason reason) {
  if (reason == FinishReason::kCancelled) return ResponseStatus::kCancelled;
  return reason == FinishReason::kStop ? ResponseStatus::kCompleted : ResponseStatus::kIncomplete;
}

ResponseView view_of(const StoredResponse& response, const AnswerItems& answer, const Usage& usage) {
  return {.id = response.id,
          .created = response.created,
          .model = response.model,
          .previous = response.previous,
          .instructions = response.instructions,
          .settings = response.settings,
          .status = response.is_complete ? ResponseStatus::kCompleted : ResponseStatus::kIncomplete,
          .is_stored = true,
          .answer = &answer,
          .usage = &usage};
}

void append_response_object(AnswerJson& json, const ResponseView& response) {
  std::string& out = json.out();
  out += "{\"id\":";
  append_json_string(out, response.id);
  out += ",\"object\":\"response\",\"created_at\":";
  append_json_integer(out, response.created);
  out.append(",\"status\":\"").append(name_of(response.status)).append("\"");
  if (!response.settings.ends_with(kBackgroundMember)) out += ",\"background\":false";
  out += ",\"error\":";
  if (response.error != nullptr) {
    append_response_error(out, *response.error);
  } else {
    out += "null";
  }
  out += response.status == ResponseStatus::kIncomplete
             ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"
             : ",\"incomplete_details\":null";
  out += ",\"instructions\":";
  if (response.instructions.empty()) {
    out += "null";
  } else {
    json.text(response.instructions);
  }
  out += ",\"model\":";
  append_json_string(out, response.model);
  out += ",\"output\":";
  if (response.answer != nullptr) {
    append_output(json, response);
  } else {
    out += "[]";
  }
  out += ",\"previous_response_id\":";
  append_string_or_null(out, response.previous);
  out += response.is_stored ? ",\"store\":true," : ",\"store\":false,";
  json.raw(response.settings);
  // Responses that were stored before calls were told from texts.
  if (!response.settings.starts_with(kToolChoiceMember))
    out += ",\"parallel_tool_calls\":false,\"tool_choice\":\"none\"";
  // Within a string a quote is escaped.
  if (response.settings.find(kToolsMember) == std::string_view::npos) out += ",\"tools\":[]";
  out +=
      ",\"reasoning\":{\"effort\":null,\"summary\":null},"
      "\"service_tier\":\"default\",\"text\":{\"format\":{\"type\":\"text\"}},"
      "\"truncation\":\"disabled\",\"usage\":";
  if (response.usage != nullptr) {
    append_response_usage(out, *response.usage);
    if (response.timings != nullptr) append_timings_member(out, *response.timings, *response.usage);
  } else {
    out += "null";
  }
  out += "}";
}

std::string message_id(std::string_view response_id) {
  return "msg_" + std::string(without_prefix(response_id));
}

// Apart from the ids of the input's items, which end with their position alone.
std::string item_id(const OutputItemView& view) {
  std::string id(id_prefix(*view.item));
  id += without_prefix(view.response_id);
  return view.index == 0 ? id : id + "_o" + std::to_string(view.index);
}

void append_output_item(AnswerJson& json, const OutputItemView& view) {
  std::string& out = json.out();
  out += "{\"id\":";
  append_json_string(out, item_id(view));
  out.append(",\"type\":\"").append(type_of(*view.item)).append("\",\"status\":\"");
  // An item has no "failed" and no "cancelled".
  const bool is_cut = view.status == ResponseStatus::kFailed || view.status == ResponseStatus::kCancelled;
  out += name_of(is_cut ? ResponseStatus::kIncomplete : view.status);
  out += "\",";
  switch (view.item->kind) {
    case AnswerItem::Kind::kReasoning: append_reasoning_members(json, view); break;
    case AnswerItem::Kind::kText: append_message_members(json, view); break;
    case AnswerItem::Kind::kCall: append_call_members(json, *view.item);
  }
  out += "}";
}

void append_output_text(AnswerJson& json, std::string_view text, std::span<const AnswerToken> tokens) {
  std::string& out = json.out();
  out += "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":";
  json.logprobs(ResponseShape::kResponse, tokens);
  out += ",\"text\":";
  json.text(text);
  out += "}";
}

std::string deleted_json(std::string_view response_id) {
  return "{\"id\":" + json_string(response_id) + ",\"object\":\"response.deleted\",\"deleted\":true}";
}

}  // namespace troupe
