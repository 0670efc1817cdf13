// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/unsupported_fields.hpp"

#include <array>
#include <string>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

namespace troupe {
namespace {

namespace json = boost::json;

bool is_never(const json::value&) { return false; }
bool is_false(const json::value& value) { return value.is_bool() && !value.get_bool(); }
bool is_true(const json::value& value) { return value.is_bool() && value.get_bool(); }
bool is_one(const json::value& value) { return value.is_number() && value.to_number<double>() == 1; }
bool is_zero(const json::value& value) { return value.is_number() && value.to_number<double>() == 0; }
bool is_zero_or_one(const json::value& value) { return is_zero(value) || is_one(value); }
bool is_zero_or_less(const json::value& value) { return value.is_number() && value.to_number<double>() <= 0; }
bool is_empty(const json::value& value) {
  return (value.is_array() && value.get_array().empty()) ||
         (value.is_object() && value.get_object().empty()) ||
         (value.is_string() && value.get_string().empty());
}
bool is_no_function_call(const json::value& value) {
  return value.is_string() && (value.get_string() == "none" || value.get_string() == "auto");
}
bool is_text_modality(const json::value& value) {
  return value.is_array() && value.get_array().size() == 1 && value.get_array()[0].is_string() &&
         value.get_array()[0].get_string() == "text";
}

bool is_text_form(const json::value& value) {
  const auto* form = value.if_object();
  const auto* type = form != nullptr ? form->if_contains("type") : nullptr;
  return type != nullptr && type->is_string() && type->get_string() == "text";
}

bool is_disabled(const json::value& value) { return value.is_string() && value.get_string() == "disabled"; }

struct UnsupportedField {
  std::string_view name;
  bool (*asks_for_nothing)(const json::value&);
  std::string_view supported;  // what may be given, for the message
};

constexpr std::array kUnsupportedEverywhere = {
    UnsupportedField{"logits_processors", is_empty, "an empty list"},
    UnsupportedField{"allowed_token_ids", is_empty, "an empty list"},
    UnsupportedField{"bad_words", is_empty, "an empty list"},
    UnsupportedField{"return_token_ids", is_false, "false"},
    UnsupportedField{"truncate_prompt_tokens", is_never, "null"},
    UnsupportedField{"skip_special_tokens", is_true, "true"},
    UnsupportedField{"structured_outputs", is_empty, "null; use response_format, grammar or regex"},
    UnsupportedField{"guided_json", is_never, "null; use response_format"},
    UnsupportedField{"guided_regex", is_never, "null; use regex"},
    UnsupportedField{"guided_choice", is_never, "null; use regex"},
    UnsupportedField{"guided_grammar", is_never, "null; use grammar"},
    UnsupportedField{"json_schema", is_never, "null; use response_format"},
    // vLLM's.
    UnsupportedField{"logprob_token_ids", is_empty, "an empty list"},
    UnsupportedField{"return_tokens_as_token_ids", is_false, "false"},
    UnsupportedField{"spaces_between_special_tokens", is_true, "true"},
    UnsupportedField{"thinking_token_budget", is_never, "null"},
    // Samplers of llama.cpp and its relatives: front ends send all of them, most with values that do nothing.
    UnsupportedField{"dry_multiplier", is_zero, "0"},
    UnsupportedField{"dynatemp_range", is_zero, "0"},
    UnsupportedField{"mirostat", is_zero, "0"},
    UnsupportedField{"mirostat_mode", is_zero, "0"},
    UnsupportedField{"smoothing_factor", is_zero, "0"},
    UnsupportedField{"tfs", is_one, "1"},
    UnsupportedField{"tfs_z", is_one, "1"},
    UnsupportedField{"top_a", is_zero, "0"},
    UnsupportedField{"top_n_sigma", is_zero_or_less, "0 or less"},
    UnsupportedField{"typical_p", is_one, "1"},
    UnsupportedField{"xtc_probability", is_zero, "0"},
};

// Answers that are searched for come from completions.
constexpr std::array kUnsupportedButInCompletions = {
    UnsupportedField{"use_beam_search", is_false, "false; /v1/completions has it"},
    UnsupportedField{"length_penalty", is_one, "1"},
    UnsupportedField{"early_stopping", is_false, "false"},
};

// Neither drawn nor known before the end.
constexpr std::array kUnsupportedWithBeams = {
    UnsupportedField{"stream", is_false, "false with use_beam_search: the best answers are known at the end"},
    UnsupportedField{"temperature", is_zero_or_one, "0 or 1 with use_beam_search"},
    UnsupportedField{"top_p", is_one, "1 with use_beam_search"},
    UnsupportedField{"top_k", is_zero_or_less, "0 or less with use_beam_search"},
    UnsupportedField{"min_p", is_zero, "0 with use_beam_search"},
    UnsupportedField{"presence_penalty", is_zero, "0 with use_beam_search"},
    UnsupportedField{"frequency_penalty", is_zero, "0 with use_beam_search"},
    UnsupportedField{"repetition_penalty", is_one, "1 with use_beam_search"},
    UnsupportedField{"repeat_penalty", is_one, "1 with use_beam_search"},
    UnsupportedField{"logit_bias", is_empty, "an empty object with use_beam_search"},
    UnsupportedField{"min_tokens", is_zero, "0 with use_beam_search"},
    UnsupportedField{"stop", is_empty, "an empty list with use_beam_search; use stop_token_ids"},
    UnsupportedField{"include_stop_str_in_output", is_false, "false with use_beam_search"},
    UnsupportedField{"logprobs", is_false, "null with use_beam_search"},
    UnsupportedField{"prompt_logprobs", is_never, "null with use_beam_search"},
    UnsupportedField{"echo", is_false, "false with use_beam_search"},
    UnsupportedField{"response_format", is_text_form, "text with use_beam_search"},
    UnsupportedField{"grammar", is_empty, "null with use_beam_search"},
    UnsupportedField{"regex", is_empty, "null with use_beam_search"},
};

constexpr std::array kUnsupportedInChat = {
    UnsupportedField{"best_of", is_one, "1"},
    UnsupportedField{"functions", is_empty, "an empty list (use tools)"},
    UnsupportedField{"function_call", is_no_function_call, "\"none\" or \"auto\" (use tool_choice)"},
    UnsupportedField{"audio", is_never, "null"},
    UnsupportedField{"modalities", is_text_modality, "[\"text\"]"},
    UnsupportedField{"web_search_options", is_never, "null"},
    UnsupportedField{"echo", is_false, "false"},
};

// About the chat template.
constexpr std::array kUnsupportedInTemplates = {
    UnsupportedField{"add_special_tokens", is_false, "false"},
    UnsupportedField{"continue_final_message", is_false, "false"},
    UnsupportedField{"chat_template", is_never, "null"},
    UnsupportedField{"documents", is_empty, "an empty list"},
};

constexpr std::array kUnsupportedInCompletions = {
    UnsupportedField{"prompt_embeds", is_never, "null"},
};

constexpr std::array kUnsupportedInResponses = {
    UnsupportedField{"prompt_logprobs", is_never, "null"},
    UnsupportedField{"best_of", is_one, "1"},
    UnsupportedField{"n", is_one, "1"},
    UnsupportedField{"conversation", is_never, "null; use previous_response_id"},
    UnsupportedField{"max_tokens", is_never, "max_output_tokens"},
    UnsupportedField{"max_completion_tokens", is_never, "max_output_tokens"},
    UnsupportedField{"max_tool_calls", is_never, "null"},
    UnsupportedField{"prompt", is_never, "null"},
    UnsupportedField{"stop", is_empty, "null"},
    UnsupportedField{"stop_token_ids", is_empty, "null"},
    UnsupportedField{"include_stop_str_in_output", is_false, "false"},
    UnsupportedField{"truncation", is_disabled, "\"disabled\""},
};

constexpr std::array kUnsupportedInMessages = {
    UnsupportedField{"prompt_logprobs", is_never, "null"},
    UnsupportedField{"best_of", is_one, "1"},
    UnsupportedField{"container", is_never, "null"},
    UnsupportedField{"context_management", is_empty, "an empty object"},
    UnsupportedField{"mcp_servers", is_empty, "an empty list"},
    UnsupportedField{"n", is_one, "1"},
    UnsupportedField{"output_format", is_never, "null; use output_config.format"},
    UnsupportedField{"stop", is_empty, "null; use stop_sequences"},
};

constexpr std::array kUnsupportedInOllama = {
    UnsupportedField{"context", is_empty, "an empty list; use /api/chat"},
    UnsupportedField{"images", is_empty, "an empty list"},
    UnsupportedField{"shift", is_false, "false: an answer ends where the context does"},
    UnsupportedField{"template", is_empty, "null"},
    UnsupportedField{"truncate", is_false, "false: a prompt that is too long is refused"},
};

constexpr std::array kUnsupportedOllamaOptions = {
    UnsupportedField{"mirostat", is_zero, "0"},
    UnsupportedField{"penalize_newline", is_true, "true"},
    UnsupportedField{"tfs_z", is_one, "1"},
    UnsupportedField{"typical_p", is_one, "1"},
};

bool is_little_endian(const json::value& value) {
  return value.is_string() && (value.get_string() == "little" || value.get_string() == "native");
}
bool is_float32(const json::value& value) { return value.is_string() && value.get_string() == "float32"; }
bool is_right(const json::value& value) { return value.is_string() && value.get_string() == "right"; }

constexpr std::array kUnsupportedInEmbeddings = {
    UnsupportedField{"add_special_tokens", is_true, "true"},
    UnsupportedField{"embed_dtype", is_float32, "\"float32\""},
    UnsupportedField{"endianness", is_little_endian, "\"little\""},
    UnsupportedField{"input_type", is_never, "null; use prompt_name"},
    UnsupportedField{"late_chunking", is_false, "false"},
    UnsupportedField{"messages", is_never, "null; use input"},
    UnsupportedField{"normalize", is_never, "null; it is as the model's files say"},
    UnsupportedField{"stream", is_false, "false"},
    UnsupportedField{"task", is_never, "null; use prompt_name"},
    UnsupportedField{"truncation_side", is_right, "\"right\""},
};

constexpr std::array kUnsupportedInScores = {
    UnsupportedField{"add_special_tokens", is_true, "true"},
    UnsupportedField{"instruction", is_empty, "null"},
    UnsupportedField{"max_chunks_per_doc", is_never, "null"},
    UnsupportedField{"max_tokens_per_doc", is_never, "null; use truncate"},
    UnsupportedField{"messages", is_never, "null"},
    UnsupportedField{"prompt_name", is_never, "null"},
    UnsupportedField{"rank_fields", is_empty, "null"},
    UnsupportedField{"stream", is_false, "false"},
    UnsupportedField{"truncation_side", is_right, "\"right\""},
};

template <std::size_t kSize>
void refuse(FieldReader& fields, const std::array<UnsupportedField, kSize>& unsupported) {
  for (const auto& field : unsupported) {
    const auto* value = fields.find(field.name);
    if (value == nullptr || field.asks_for_nothing(*value)) continue;
    fields.fail(field.name, " is not supported yet except as " + std::string(field.supported) + ", got " +
                                describe(*value));
  }
}

}  // namespace

void refuse_unsupported_fields(FieldReader& fields, ResponseShape shape) {
  if (is_ollama(shape)) return refuse(fields, kUnsupportedInOllama);
  refuse(fields, kUnsupportedEverywhere);
  if (shape != ResponseShape::kCompletion) refuse(fields, kUnsupportedButInCompletions);
  switch (shape) {
    case ResponseShape::kChat:
      refuse(fields, kUnsupportedInChat);
      return refuse(fields, kUnsupportedInTemplates);
    case ResponseShape::kCompletion: return refuse(fields, kUnsupportedInCompletions);
    case ResponseShape::kResponse: return refuse(fields, kUnsupportedInResponses);
    case ResponseShape::kMessage: return refuse(fields, kUnsupportedInMessages);
    case ResponseShape::kOllamaChat:
    case ResponseShape::kOllamaGenerate: break;  // above
  }
}

void refuse_unsupported_beam_fields(FieldReader& fields) { refuse(fields, kUnsupportedWithBeams); }

void refuse_unsupported_ollama_options(FieldReader& options) { refuse(options, kUnsupportedOllamaOptions); }

void refuse_unsupported_template_fields(FieldReader& fields) { refuse(fields, kUnsupportedInTemplates); }

void refuse_unsupported_embedding_fields(FieldReader& fields) { refuse(fields, kUnsupportedInEmbeddings); }

void refuse_unsupported_score_fields(FieldReader& fields) { refuse(fields, kUnsupportedInScores); }

}  // namespace troupe
