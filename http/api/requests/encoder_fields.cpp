// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/encoder_fields.hpp"

#include <cstdint>
#include <limits>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::string_view kInputForms =
    "a string, a list of strings, a list of token ids or a list of such lists";

void read_text(FieldReader& fields, std::string_view name, const json::string& text, std::string_view prompt,
               EmbeddingRequest& request) {
  if (text.empty()) return fields.fail(name, " must not be empty");
  request.inputs.emplace_back(TextPrompt{std::string(prompt).append(text.data(), text.size())});
}

void read_tokens(FieldReader& fields, std::string_view name, const json::array& ids,
                 EmbeddingRequest& request) {
  if (ids.empty()) return fields.fail(name, " must not be an empty list");
  TokenPrompt prompt;
  read_token_ids(fields, name, ids, prompt.tokens);
  request.inputs.emplace_back(std::move(prompt));
}

void read_inputs(FieldReader& fields, const json::array& list, const Limits& limits, std::string_view prompt,
                 EmbeddingRequest& request) {
  if (list.size() > limits.max_embedding_inputs)
    return fields.fail("input", " may hold at most " + std::to_string(limits.max_embedding_inputs) +
                                    " inputs a request, got " + std::to_string(list.size()));
  request.inputs.reserve(list.size());
  for (std::size_t i = 0; i < list.size() && !fields.error(); ++i) {
    const std::string name = "input[" + std::to_string(i) + "]";
    if (list[i].is_string()) {
      read_text(fields, name, list[i].get_string(), prompt, request);
    } else if (list[i].is_array()) {
      read_tokens(fields, name, list[i].get_array(), request);
    } else {
      fields.fail(name, "a string or a list of token ids", list[i]);
    }
  }
}

}  // namespace

void read_input(FieldReader& fields, const Limits& limits, std::string_view prompt,
                EmbeddingRequest& request) {
  const auto* value = fields.find("input");
  if (value == nullptr) return fields.fail("input", " is required");
  if (value->is_string()) return read_text(fields, "input", value->get_string(), prompt, request);
  if (!value->is_array()) return fields.fail("input", kInputForms, *value);
  const auto& list = value->get_array();
  if (list.empty() || list[0].is_number()) return read_tokens(fields, "input", list, request);
  read_inputs(fields, list, limits, prompt, request);
}

bool read_truncation(FieldReader& fields, const ServedModelInfo& model) {
  const auto most = fields.integer("truncate_prompt_tokens", -1, kMost);
  if (most && *most != -1 && *most < model.context_length)
    fields.fail("truncate_prompt_tokens", " must be -1 or at least " + std::to_string(model.context_length) +
                                              ", the most tokens this model takes, got " +
                                              std::to_string(*most));
  return fields.boolean("truncate").value_or(most.has_value());
}

}  // namespace troupe
