// SPDX-License-Identifier: Apache-2.0
// The fields that other servers know and this one does not yet: refused by name
// where their value asks for something, accepted where it asks for nothing.
#include <algorithm>
#include <array>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "http/generation_fields.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

bool is_never(const json::value&) { return false; }
bool is_false(const json::value& value) { return value.is_bool() && !value.get_bool(); }
bool is_true(const json::value& value) { return value.is_bool() && value.get_bool(); }
bool is_one(const json::value& value) { return value.is_number() && value.to_number<double>() == 1; }
bool is_empty(const json::value& value) {
  return (value.is_array() && value.get_array().empty()) ||
         (value.is_object() && value.get_object().empty()) ||
         (value.is_string() && value.get_string().empty());
}
bool is_no_tool_choice(const json::value& value) {
  return value.is_string() && (value.get_string() == "none" || value.get_string() == "auto");
}
bool is_text_format(const json::value& value) {
  if (!value.is_object()) return false;
  const auto* type = value.get_object().if_contains("type");
  return type != nullptr && type->is_string() && type->get_string() == "text";
}
bool is_text_modality(const json::value& value) {
  return value.is_array() && value.get_array().size() == 1 && value.get_array()[0].is_string() &&
         value.get_array()[0].get_string() == "text";
}

bool is_disabled(const json::value& value) { return value.is_string() && value.get_string() == "disabled"; }
bool is_all_null(const json::value& value) {
  if (!value.is_object()) return false;
  const auto& object = value.get_object();
  return std::all_of(object.begin(), object.end(), [](const auto& pair) { return pair.value().is_null(); });
}
// {"format": {"type": "text"}} or less; verbosity is a wish, not a meaning.
bool is_text_text(const json::value& value) {
  if (!value.is_object()) return false;
  const auto* format = value.get_object().if_contains("format");
  return format == nullptr || format->is_null() || is_text_format(*format);
}

struct UnsupportedField {
  std::string_view name;
  bool (*asks_for_nothing)(const json::value&);
  std::string_view supported;  // what may be given, for the message
};

constexpr std::array kUnsupportedEverywhere = {
    UnsupportedField{"n", is_one, "1"},
    UnsupportedField{"best_of", is_one, "1"},
    UnsupportedField{"use_beam_search", is_false, "false"},
    UnsupportedField{"length_penalty", is_one, "1"},
    UnsupportedField{"logit_bias", is_empty, "an empty object"},
    UnsupportedField{"logits_processors", is_empty, "an empty list"},
    UnsupportedField{"allowed_token_ids", is_empty, "an empty list"},
    UnsupportedField{"bad_words", is_empty, "an empty list"},
    UnsupportedField{"prompt_logprobs", is_never, "null"},
    UnsupportedField{"return_token_ids", is_false, "false"},
    UnsupportedField{"truncate_prompt_tokens", is_never, "null"},
    UnsupportedField{"skip_special_tokens", is_true, "true"},
    UnsupportedField{"response_format", is_text_format, "{\"type\": \"text\"}"},
    UnsupportedField{"structured_outputs", is_empty, "null"},
    UnsupportedField{"guided_json", is_never, "null"},
    UnsupportedField{"guided_regex", is_never, "null"},
    UnsupportedField{"guided_choice", is_never, "null"},
    UnsupportedField{"guided_grammar", is_never, "null"},
    UnsupportedField{"grammar", is_empty, "null"},
    UnsupportedField{"json_schema", is_never, "null"},
};

constexpr std::array kUnsupportedInChat = {
    UnsupportedField{"tools", is_empty, "an empty list"},
    UnsupportedField{"tool_choice", is_no_tool_choice, "\"none\" or \"auto\""},
    UnsupportedField{"functions", is_empty, "an empty list"},
    UnsupportedField{"function_call", is_no_tool_choice, "\"none\" or \"auto\""},
    UnsupportedField{"audio", is_never, "null"},
    UnsupportedField{"modalities", is_text_modality, "[\"text\"]"},
    UnsupportedField{"web_search_options", is_never, "null"},
    UnsupportedField{"echo", is_false, "false"},
    UnsupportedField{"add_special_tokens", is_false, "false"},
    UnsupportedField{"continue_final_message", is_false, "false"},
    UnsupportedField{"chat_template", is_never, "null"},
    UnsupportedField{"chat_template_kwargs", is_empty, "an empty object"},
    UnsupportedField{"documents", is_empty, "an empty list"},
};

constexpr std::array kUnsupportedInCompletions = {
    UnsupportedField{"suffix", is_empty, "null"},
    UnsupportedField{"prompt_embeds", is_never, "null"},
    UnsupportedField{"add_special_tokens", is_true, "true"},
};

constexpr std::array kUnsupportedInResponses = {
    UnsupportedField{"background", is_false, "false"},
    UnsupportedField{"conversation", is_never, "null; use previous_response_id"},
    UnsupportedField{"max_tokens", is_never, "max_output_tokens"},
    UnsupportedField{"max_completion_tokens", is_never, "max_output_tokens"},
    UnsupportedField{"max_tool_calls", is_never, "null"},
    UnsupportedField{"prompt", is_never, "null"},
    UnsupportedField{"reasoning", is_all_null, "null"},
    UnsupportedField{"stop", is_empty, "null"},
    UnsupportedField{"stop_token_ids", is_empty, "null"},
    UnsupportedField{"include_stop_str_in_output", is_false, "false"},
    UnsupportedField{"text", is_text_text, "{\"format\": {\"type\": \"text\"}}"},
    UnsupportedField{"tools", is_empty, "an empty list"},
    UnsupportedField{"tool_choice", is_no_tool_choice, "\"none\" or \"auto\""},
    UnsupportedField{"truncation", is_disabled, "\"disabled\""},
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
  refuse(fields, kUnsupportedEverywhere);
  switch (shape) {
    case ResponseShape::kChat: return refuse(fields, kUnsupportedInChat);
    case ResponseShape::kCompletion: return refuse(fields, kUnsupportedInCompletions);
    case ResponseShape::kResponse: return refuse(fields, kUnsupportedInResponses);
  }
}

}  // namespace troupe
