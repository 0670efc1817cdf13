// SPDX-License-Identifier: Apache-2.0
#include "http/response_object.hpp"

#include "http/json_text.hpp"
#include "http/logprobs_json.hpp"
#include "http/response_json.hpp"

namespace troupe {
namespace {

constexpr std::string_view kResponsePrefix = "resp_";

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
  out += ",\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":";
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

}  // namespace

std::string_view name_of(ResponseStatus status) {
  switch (status) {
    case ResponseStatus::kInProgress: return "in_progress";
    case ResponseStatus::kCompleted: return "completed";
    case ResponseStatus::kIncomplete: return "incomplete";
    case ResponseStatus::kFailed: break;
  }
  return "failed";
}

ResponseStatus status_of(FinishReason reason) {
  return reason == FinishReason::kStop ? ResponseStatus::kCompleted : ResponseStatus::kIncomplete;
}

ResponseView view_of(const StoredResponse& response, const Usage& usage) {
  return {.id = response.id,
          .created = response.created,
          .model = response.model,
          .previous = response.previous,
          .instructions = response.instructions,
          .settings = response.settings,
          .status = response.is_complete ? ResponseStatus::kCompleted : ResponseStatus::kIncomplete,
          .is_stored = true,
          .text = response.output,
          .usage = &usage};
}

void append_response_object(std::string& out, const ResponseView& response) {
  out += "{\"id\":";
  append_json_string(out, response.id);
  out += ",\"object\":\"response\",\"created_at\":";
  append_json_integer(out, response.created);
  out.append(",\"status\":\"").append(name_of(response.status)).append("\",\"background\":false,\"error\":");
  if (response.error != nullptr) {
    append_response_error(out, *response.error);
  } else {
    out += "null";
  }
  out += response.status == ResponseStatus::kIncomplete
             ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"
             : ",\"incomplete_details\":null";
  out += ",\"instructions\":";
  append_string_or_null(out, response.instructions);
  out += ",\"model\":";
  append_json_string(out, response.model);
  out += ",\"output\":[";
  if (response.text) append_output_message(out, response.id, response.status, response.text, response.tokens);
  out += "],\"previous_response_id\":";
  append_string_or_null(out, response.previous);
  out += response.is_stored ? ",\"store\":true," : ",\"store\":false,";
  out += response.settings;
  out +=
      ",\"parallel_tool_calls\":false,\"reasoning\":{\"effort\":null,\"summary\":null},"
      "\"service_tier\":\"default\",\"text\":{\"format\":{\"type\":\"text\"}},"
      "\"tool_choice\":\"none\",\"tools\":[],\"truncation\":\"disabled\",\"usage\":";
  if (response.usage != nullptr) {
    append_response_usage(out, *response.usage);
    if (response.timings != nullptr) append_timings_member(out, *response.timings, *response.usage);
  } else {
    out += "null";
  }
  out += "}";
}

std::string message_id(std::string_view response_id) {
  if (response_id.starts_with(kResponsePrefix)) response_id.remove_prefix(kResponsePrefix.size());
  return "msg_" + std::string(response_id);
}

void append_output_message(std::string& out, std::string_view response_id, ResponseStatus status,
                           std::optional<std::string_view> text, std::span<const AnswerToken> tokens) {
  out += "{\"id\":";
  append_json_string(out, message_id(response_id));
  out += ",\"type\":\"message\",\"status\":\"";
  // A message has no "failed".
  out += status == ResponseStatus::kFailed ? name_of(ResponseStatus::kIncomplete) : name_of(status);
  out += "\",\"role\":\"assistant\",\"content\":[";
  if (text) append_output_text(out, *text, tokens);
  out += "]}";
}

void append_output_text(std::string& out, std::string_view text, std::span<const AnswerToken> tokens) {
  out += "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":";
  append_logprobs(out, ResponseShape::kResponse, tokens);
  out += ",\"text\":";
  append_json_string(out, text);
  out += "}";
}

std::string deleted_json(std::string_view response_id) {
  return "{\"id\":" + json_string(response_id) + ",\"object\":\"response.deleted\",\"deleted\":true}";
}

}  // namespace troupe
