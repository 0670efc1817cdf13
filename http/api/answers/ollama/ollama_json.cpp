// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/ollama/ollama_json.hpp"

#include <cstdint>

#include "http/api/answers/call_input.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

void append_count(std::string& out, std::string_view name, std::int64_t count) {
  out.append(",\"").append(name).append("\":");
  append_json_integer(out, count);
}

void append_calls(AnswerJson& json, std::span<const CallDelta> calls) {
  std::string& out = json.out();
  out += ",\"tool_calls\":[";
  for (const CallDelta& call : calls) {
    if (&call != calls.data()) out += ',';
    out += "{\"id\":";
    append_json_string(out, call.id);
    out += ",\"function\":{\"index\":";
    append_json_integer(out, call.index);
    out += ",\"name\":";
    append_json_string(out, call.name);
    out += ",\"arguments\":";
    append_call_input(json, call.arguments);
    out += "}}";
  }
  out += ']';
}

}  // namespace

std::string ollama_head(const ResponseIdentity& identity) {
  std::string out = "{\"model\":";
  append_json_string(out, identity.model);
  out += ",\"created_at\":";
  append_json_time(out, identity.created);
  return out;
}

void append_ollama_portion(AnswerJson& json, ResponseShape shape, const OllamaPortion& portion) {
  std::string& out = json.out();
  const bool is_chat = shape == ResponseShape::kOllamaChat;
  out += is_chat ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"response\":";
  json.text(portion.text);
  if (!portion.reasoning.empty()) {
    out += ",\"thinking\":";
    json.text(portion.reasoning);
  }
  if (!portion.calls.empty()) append_calls(json, portion.calls);
  if (is_chat) out += '}';
  if (portion.tokens.empty()) return;
  out += ",\"logprobs\":";
  json.logprobs(shape, portion.tokens);
}

void append_ollama_end(std::string& out, const Finished& finished) {
  const RequestTimings& timings = finished.timings;
  out += ",\"done\":true,\"done_reason\":\"";
  out += finished.reason == FinishReason::kLength ? "length\"" : "stop\"";
  append_count(out, "total_duration", timings.total.count());
  append_count(out, "load_duration", 0);
  append_count(out, "prompt_eval_count", finished.usage.prompt_tokens);
  append_count(out, "prompt_eval_duration", (timings.load + timings.prefill).count());
  append_count(out, "eval_count", finished.usage.completion_tokens);
  append_count(out, "eval_duration", timings.decode.count());
  out += '}';
}

std::string ollama_loaded_json(const ResponseIdentity& identity) {
  std::string out = ollama_head(identity);
  AnswerJson json(out);
  append_ollama_portion(json, identity.shape, {});
  return out + ",\"done\":true,\"done_reason\":\"load\"}";
}

void append_ollama_vectors(AnswerJson& json, std::string_view model, const EmbeddingView& view,
                           std::uint32_t prompt_tokens, std::chrono::nanoseconds duration) {
  std::string& out = json.out();
  out += "{\"model\":";
  append_json_string(out, model);
  out += ",\"embeddings\":";
  json.embeddings(view);
  append_count(out, "total_duration", duration.count());
  append_count(out, "load_duration", 0);
  append_count(out, "prompt_eval_count", prompt_tokens);
  out += '}';
}

void append_ollama_vector(std::string& out, const EmbeddingView& view) {
  out += "{\"embedding\":";
  if (view.num_vectors() == 0) {
    out += "[]";
  } else {
    append_embedding(out, view, 0);
  }
  out += '}';
}

std::string ollama_error_json(const HttpError& error) {
  return "{\"error\":" + json_string(error.message) + "}";
}

}  // namespace troupe
