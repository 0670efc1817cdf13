// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/message_json.hpp"

#include <array>
#include <charconv>
#include <utility>

#include "http/api/answers/call_input.hpp"
#include "http/json/json_text.hpp"
#include "text/stable_hash.hpp"

namespace troupe {
namespace {

std::string_view error_type(unsigned status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

void append_block(AnswerJson& json, const AnswerItem& item) {
  std::string& out = json.out();
  switch (item.kind) {
    case AnswerItem::Kind::kReasoning:
      out += "{\"type\":\"thinking\",\"thinking\":";
      json.text(item.text);
      out += ",\"signature\":";
      append_json_string(out, thinking_signature(stable_hash(item.text)));
      break;
    case AnswerItem::Kind::kText:
      out += "{\"type\":\"text\",\"text\":";
      json.text(item.text);
      break;
    case AnswerItem::Kind::kCall:
      out += "{\"type\":\"tool_use\",\"id\":";
      append_json_string(out, item.id);
      out += ",\"name\":";
      append_json_string(out, item.name);
      out += ",\"input\":";
      append_call_input(json, item.text);
  }
  out += '}';
}

}  // namespace

std::string_view message_stop_reason(const Finished& finished) {
  if (finished.reason == FinishReason::kLength) return "max_tokens";
  if (finished.called_tools) return "tool_use";
  return finished.stop_string ? "stop_sequence" : "end_turn";
}

void append_message_usage(std::string& out, const Usage& usage) {
  out += "{\"input_tokens\":";
  append_json_integer(out, usage.prompt_tokens - usage.cached_tokens);
  out += ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":";
  append_json_integer(out, usage.cached_tokens);
  out += ",\"output_tokens\":";
  append_json_integer(out, usage.completion_tokens);
  out += "}";
}

void append_message_stop(std::string& out, const Finished& finished) {
  out.append("\"stop_reason\":\"").append(message_stop_reason(finished)).append("\",\"stop_sequence\":");
  if (finished.stop_string && !finished.called_tools) {
    append_json_string(out, *finished.stop_string);
  } else {
    out += "null";
  }
}

std::string thinking_signature(std::uint64_t hash) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16).ptr;
  return "troupe-" + std::string(digits.data(), end);
}

void append_message(AnswerJson& json, const ResponseIdentity& identity, const AnswerItems& answer,
                    const Finished& finished) {
  std::string& out = json.out();
  out += "{\"id\":";
  append_json_string(out, identity.id);
  out += ",\"type\":\"message\",\"role\":\"assistant\",\"model\":";
  append_json_string(out, identity.model);
  out += ",\"content\":[";
  bool is_first = true;
  for (const AnswerItem& item : answer.all()) {
    if (!std::exchange(is_first, false)) out += ',';
    append_block(json, item);
  }
  out += "],";
  append_message_stop(out, finished);
  out += ",\"usage\":";
  append_message_usage(out, finished.usage);
  append_timings_member(out, finished.timings, finished.usage);
  out += "}";
}

std::string message_error_json(const HttpError& error, std::string_view request_id) {
  std::string out = "{\"type\":\"error\",\"error\":{\"type\":";
  append_json_string(out, error_type(error.status));
  out += ",\"message\":";
  append_json_string(out, error.message);
  return out + "},\"request_id\":" + json_string(request_id) + "}";
}

}  // namespace troupe
