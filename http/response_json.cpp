// SPDX-License-Identifier: Apache-2.0
#include "http/response_json.hpp"

#include "http/json_text.hpp"
#include "http/logprobs_json.hpp"

namespace troupe {
namespace {

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

void append_usage(std::string& out, const Usage& usage) {
  out += "{\"prompt_tokens\":";
  append_json_integer(out, usage.prompt_tokens);
  out += ",\"completion_tokens\":";
  append_json_integer(out, usage.completion_tokens);
  out += ",\"total_tokens\":";
  append_json_integer(out, std::int64_t{usage.prompt_tokens} + usage.completion_tokens);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  append_json_integer(out, usage.cached_tokens);
  out += "}}";
}

void append_timings_member(std::string& out, const RequestTimings& timings, const Usage& usage) {
  using std::chrono::nanoseconds;
  if (timings.total <= nanoseconds(0)) return;
  out += ",\"timings\":{\"queue_ms\":";
  append_json_number(out, milliseconds(timings.queue));
  const auto add = [&](std::string_view name, double number) {
    out.append(",\"").append(name).append("\":");
    append_json_number(out, number);
  };
  if (timings.encode > nanoseconds(0)) add("encode_ms", milliseconds(timings.encode));
  if (timings.load > nanoseconds(0)) add("load_ms", milliseconds(timings.load));
  add("prefill_ms", milliseconds(timings.prefill));
  add("decode_ms", milliseconds(timings.decode));
  if (timings.suspended > nanoseconds(0)) add("suspended_ms", milliseconds(timings.suspended));
  add("total_ms", milliseconds(timings.total));
  const auto add_count = [&](std::string_view name, std::uint32_t number) {
    if (number == 0) return;
    out.append(",\"").append(name).append("\":");
    append_json_integer(out, number);
  };
  add_count("tokens_from_device", timings.sources.device);
  add_count("tokens_from_host", timings.sources.host);
  add_count("tokens_from_disk", timings.sources.disk);
  add_count("tokens_recomputed", timings.sources.recomputed);
  const std::uint32_t num_computed = usage.prompt_tokens - usage.cached_tokens;
  if (num_computed > 0 && timings.prefill > nanoseconds(0))
    add("prompt_tokens_per_second", num_computed / milliseconds(timings.prefill) * 1000);
  if (timings.decoded_tokens > 0 && timings.decode > nanoseconds(0))
    add("tokens_per_second", timings.decoded_tokens / milliseconds(timings.decode) * 1000);
  out += "}";
}

void append_finish(std::string& out, const Finished& finished) {
  out += "\"finish_reason\":\"";
  out += finish_reason_name(finished.reason);
  out += "\",\"stop_reason\":";
  if (finished.stop_string) {
    append_json_string(out, *finished.stop_string);
  } else if (finished.stop_token) {
    append_json_integer(out, *finished.stop_token);
  } else {
    out += "null";
  }
}

std::string completed_json(const ResponseIdentity& identity, std::string_view text, const Finished& finished,
                           const std::vector<AnswerToken>* tokens) {
  const bool is_chat = identity.shape == ResponseShape::kChat;
  std::string out;
  out.reserve(text.size() + 512);
  out += "{\"id\":";
  append_json_string(out, identity.id);
  out += is_chat ? ",\"object\":\"chat.completion\"" : ",\"object\":\"text_completion\"";
  out += ",\"created\":";
  append_json_integer(out, identity.created);
  out += ",\"model\":";
  append_json_string(out, identity.model);
  out += ",\"choices\":[{\"index\":0,";
  out += is_chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":";
  append_json_string(out, text);
  if (is_chat) out += ",\"refusal\":null}";
  out += ",\"logprobs\":";
  if (tokens != nullptr) {
    append_logprobs(out, identity.shape, *tokens);
  } else {
    out += "null";
  }
  out += ",";
  append_finish(out, finished);
  out += "}],\"usage\":";
  append_usage(out, finished.usage);
  append_timings_member(out, finished.timings, finished.usage);
  out += ",\"system_fingerprint\":null}";
  return out;
}

std::string model_json(const ServedModelInfo& model) {
  std::string out = "{\"id\":";
  append_json_string(out, model.name);
  out += ",\"object\":\"model\",\"created\":";
  append_json_integer(out, model.created);
  out += ",\"owned_by\":\"troupe\",\"max_model_len\":";
  append_json_integer(out, model.context_length);
  out += "}";
  return out;
}

std::string model_list_json(const ServedModelInfo& model) {
  return "{\"object\":\"list\",\"data\":[" + model_json(model) + "]}";
}

}  // namespace troupe
