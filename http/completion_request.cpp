// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "http/generation_fields.hpp"
#include "http/openai_api.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::uint32_t kDefaultMaxTokens = 16;  // OpenAI's
constexpr std::string_view kPromptForms =
    "a string, a list of one string, a list of token ids or a list of one such list";

void read_token_ids(FieldReader& fields, const json::array& ids, std::vector<std::int32_t>& out) {
  out.reserve(ids.size());
  for (const auto& entry : ids) {
    const auto id = as_token_id(entry);
    if (!id) return fields.fail("prompt", "made of token ids from 0 to 2147483647", entry);
    out.push_back(*id);
  }
}

void read_prompt(FieldReader& fields, GenerationRequest& request) {
  const auto* value = fields.find("prompt");
  if (value == nullptr) return fields.fail("prompt", " is required");
  if (value->is_array()) {
    const auto& list = value->get_array();
    if (list.empty()) return fields.fail("prompt", " must not be an empty list");
    if (list[0].is_number()) {
      return read_token_ids(fields, list, request.prompt.emplace<TokenPrompt>().tokens);
    }
    if (list.size() > 1) {
      return fields.fail("prompt", " may hold one prompt a request, got " + std::to_string(list.size()) +
                                       ": send the others by themselves");
    }
    value = &list[0];
    if (value->is_array()) {
      if (value->get_array().empty()) return fields.fail("prompt", " must not be an empty list");
      return read_token_ids(fields, value->get_array(), request.prompt.emplace<TokenPrompt>().tokens);
    }
  }
  if (!value->is_string()) return fields.fail("prompt", kPromptForms, *value);
  request.prompt = TextPrompt{std::string(value->get_string().c_str(), value->get_string().size())};
}

}  // namespace

std::variant<ApiRequest, ApiError> parse_completion_request(std::string_view body,
                                                            const ServedModelInfo& model,
                                                            const Limits& limits) {
  ApiRequest defaults;
  defaults.shape = ResponseShape::kCompletion;
  defaults.generation.max_tokens = std::min(kDefaultMaxTokens, model.context_length);
  return parse_generation_request(body, {model, limits}, std::move(defaults),
                                  [](FieldReader& fields, ApiRequest& request) {
                                    request.generation.echo = fields.boolean("echo").value_or(false);
                                    read_prompt(fields, request.generation);
                                  });
}

}  // namespace troupe
