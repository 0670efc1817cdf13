// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/response_json.hpp"

#include "http/json/json_text.hpp"

namespace troupe {
namespace {

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// The members of a chat's message behind its role.
void append_chat_message(AnswerJson& json, const ChoiceView& choice) {
  std::string& out = json.out();
  out += "\"content\":";
  if (choice.text.empty() && !choice.calls.empty()) {
    out += "null";
  } else {
    json.text(choice.text);
  }
  out += ",\"refusal\":null";
  if (!choice.reasoning.empty()) {
    out += ",\"reasoning_content\":";
    json.text(choice.reasoning);
  }
  if (choice.calls.empty()) return;
  out += ",\"tool_calls\":[";
  for (const CallDelta& call : choice.calls) {
    if (call.index > 0) out += ',';
    out += "{\"id\":";
    append_json_string(out, call.id);
    out += ",\"type\":\"function\",\"function\":{\"name\":";
    append_json_string(out, call.name);
    out += ",\"arguments\":";
    json.text(call.arguments);
    out += "}}";
  }
  out += ']';
}

void append_prompt_logprobs(AnswerJson& json, const PromptScores* scores) {
  if (scores == nullptr) return;
  json.out() += ",\"prompt_logprobs\":";
  json.prompt_logprobs(scores->tokens);
}

void append_choice(AnswerJson& json, ResponseShape shape, std::size_t index, const ChoiceView& choice) {
  std::string& out = json.out();
  out += "{\"index\":";
  append_json_integer(out, static_cast<std::int64_t>(index));
  if (shape == ResponseShape::kChat) {
    out += ",\"message\":{\"role\":\"assistant\",";
    append_chat_message(json, choice);
    out += '}';
  } else {
    out += ",\"text\":";
    json.text(choice.text);
  }
  out += ",\"logprobs\":";
  if (choice.tokens != nullptr) {
    json.logprobs(shape, *choice.tokens);
  } else {
    out += "null";
  }
  out += ",";
  append_finish(out, *choice.finished);
  // Of a chat they stand beside the choices.
  if (shape == ResponseShape::kCompletion) append_prompt_logprobs(json, choice.prompt_scores);
  out += "}";
}

// Ollama's words, and the names of endpoints for what it has none for.
std::string_view capabilities_of(const ServedModelInfo& model) {
  switch (model.kind) {
    case ModelKind::kEmbedding: return "[\"embedding\",\"score\",\"rerank\"]";
    case ModelKind::kClassifying:
      return can(model, ModelTask::kScore) ? "[\"classify\",\"score\",\"rerank\"]" : "[\"classify\"]";
    case ModelKind::kGenerative: break;
  }
  return "[\"completion\"]";
}

// ,"labels":["negative","positive"]
void append_labels(std::string& out, const std::vector<std::string>& labels) {
  out += ",\"labels\":[";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, labels[i]);
  }
  out += ']';
}

}  // namespace

std::string_view finish_reason_name(const Finished& finished) {
  if (finished.reason == FinishReason::kLength) return "length";
  return finished.called_tools ? "tool_calls" : "stop";
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
  out += "},\"completion_tokens_details\":{\"reasoning_tokens\":";
  append_json_integer(out, usage.reasoning_tokens);
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
  out += finish_reason_name(finished);
  out += "\",\"stop_reason\":";
  if (finished.stop_string) {
    append_json_string(out, *finished.stop_string);
  } else if (finished.stop_token) {
    append_json_integer(out, *finished.stop_token);
  } else {
    out += "null";
  }
}

void append_completed(AnswerJson& json, const ResponseIdentity& identity, std::span<const ChoiceView> choices,
                      const Finished& total) {
  const bool is_chat = identity.shape == ResponseShape::kChat;
  std::string& out = json.out();
  out += "{\"id\":";
  append_json_string(out, identity.id);
  out += is_chat ? ",\"object\":\"chat.completion\"" : ",\"object\":\"text_completion\"";
  out += ",\"created\":";
  append_json_integer(out, identity.created);
  out += ",\"model\":";
  append_json_string(out, identity.model);
  out += ",\"choices\":[";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) out += ",";
    append_choice(json, identity.shape, i, choices[i]);
  }
  out += "],\"usage\":";
  append_usage(out, total.usage);
  append_timings_member(out, total.timings, total.usage);
  if (is_chat && !choices.empty()) append_prompt_logprobs(json, choices.front().prompt_scores);
  out += ",\"system_fingerprint\":null}";
}

void append_embedding_list(AnswerJson& json, std::string_view model, const EmbeddingView& vectors,
                           std::uint32_t prompt_tokens) {
  std::string& out = json.out();
  out += "{\"object\":\"list\",\"data\":";
  json.embeddings(vectors);
  out += ",\"model\":";
  append_json_string(out, model);
  out += ",\"usage\":{\"prompt_tokens\":";
  append_json_integer(out, prompt_tokens);
  out += ",\"total_tokens\":";
  append_json_integer(out, prompt_tokens);
  out += "}}";
}

// OpenAI's fields, vLLM's length, and what the model can do.
std::string model_json(const ServedModelInfo& model) {
  std::string out = "{\"id\":";
  append_json_string(out, model.name);
  out += ",\"object\":\"model\",\"created\":";
  append_json_integer(out, model.created);
  out += ",\"owned_by\":\"troupe\",\"max_model_len\":";
  append_json_integer(out, model.context_length);
  out += ",\"capabilities\":";
  out += capabilities_of(model);
  if (model.kind == ModelKind::kEmbedding) {
    out += ",\"embedding_size\":";
    append_json_integer(out, model.embedding_size);
  }
  if (model.kind == ModelKind::kClassifying) append_labels(out, model.labels);
  out += "}";
  return out;
}

std::string model_list_json(const std::vector<ServedModelInfo>& models) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (std::size_t i = 0; i < models.size(); ++i) out += (i > 0 ? "," : "") + model_json(models[i]);
  return out + "]}";
}

}  // namespace troupe
