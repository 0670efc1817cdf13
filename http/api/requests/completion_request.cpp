// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "http/api/requests/generation_fields.hpp"
#include "http/api/requests/openai_api.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

using Prompt = std::variant<TextPrompt, TokenPrompt>;

constexpr std::string_view kPromptForms =
    "a string, a list of strings, a list of token ids or a list of such lists";

// "" is none, as null.
std::optional<std::string> read_suffix(FieldReader& fields) {
  auto suffix = fields.string("suffix");
  return suffix && !suffix->empty() ? std::move(suffix) : std::nullopt;
}

Prompt read_tokens(FieldReader& fields, std::string_view name, const json::array& ids) {
  TokenPrompt prompt;
  if (read_suffix(fields)) fields.fail("suffix", " needs a prompt of text, not of token ids");
  if (ids.empty()) fields.fail(name, " must not be an empty list");
  read_token_ids(fields, name, ids, prompt.tokens);
  return prompt;
}

// One of the prompts; name: which.
Prompt read_one(FieldReader& fields, std::string_view name, const json::value& value) {
  if (value.is_array()) return read_tokens(fields, name, value.get_array());
  if (!value.is_string()) {
    fields.fail(name, kPromptForms, value);
    return TextPrompt{};
  }
  return TextPrompt{.text = std::string(value.get_string().data(), value.get_string().size()),
                    .adds_special_tokens = fields.boolean("add_special_tokens").value_or(true),
                    .reads_special_tokens = true,
                    .suffix = read_suffix(fields)};
}

void read_list(FieldReader& fields, const json::array& list, const Limits& limits, ApiRequest& request,
               std::vector<Prompt>& prompts) {
  const auto& beams = request.generation.beams;
  const std::uint32_t num_each = beams ? beams->width : request.num_candidates;
  const std::uint32_t num_given = beams ? beams->num_answers : request.num_choices;
  if (list.size() * num_each > limits.max_choices)
    return fields.fail("prompt", " may hold prompts for at most " + std::to_string(limits.max_choices) +
                                     " answers a request, got " + std::to_string(list.size()) + " with " +
                                     (num_each > num_given ? "best_of" : "n") + " = " +
                                     std::to_string(num_each));
  for (std::size_t i = 0; i < list.size() && !fields.error(); ++i)
    prompts.push_back(read_one(fields, "prompt[" + std::to_string(i) + "]", list[i]));
}

void read_prompts(FieldReader& fields, const Limits& limits, ApiRequest& request) {
  const auto* value = fields.find("prompt");
  if (value == nullptr) return fields.fail("prompt", " is required");
  std::vector<Prompt> prompts;
  const auto* list = value->if_array();
  if (list != nullptr && list->empty()) return fields.fail("prompt", " must not be an empty list");
  if (list == nullptr || (*list)[0].is_number()) {
    prompts.push_back(read_one(fields, "prompt", *value));
  } else {
    read_list(fields, *list, limits, request, prompts);
  }
  if (fields.error()) return;
  std::visit([&](auto& first) { request.generation.prompt = std::move(first); }, prompts.front());
  prompts.erase(prompts.begin());
  request.more_prompts = std::move(prompts);
  if (request.is_resumable && !request.more_prompts.empty())
    fields.fail("stream_options.resumable", " must be false with several prompts");
}

}  // namespace

std::variant<ApiRequest, ApiError> parse_completion_request(std::string_view body, const ServedModels& models,
                                                            const Limits& limits) {
  return parse_generation_request(body, models, limits, ResponseShape::kCompletion,
                                  [&](FieldReader& fields, ApiRequest& request) {
                                    request.generation.echo = fields.boolean("echo").value_or(false);
                                    if (request.generation.echo && read_suffix(fields))
                                      fields.fail("echo", " must be false with a suffix");
                                    read_prompts(fields, limits, request);
                                  });
}

}  // namespace troupe
