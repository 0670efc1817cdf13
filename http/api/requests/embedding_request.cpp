// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <boost/json/object.hpp>

#include "http/api/requests/encoder_fields.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/requests/unsupported_fields.hpp"
#include "http/json/json_document.hpp"
#include "http/json/json_text.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxNamesShown = 512;

EmbeddingFormat read_format(FieldReader& fields) {
  const auto name = fields.string("encoding_format");
  if (!name || *name == "float") return EmbeddingFormat::kFloat;
  if (*name != "base64") fields.fail("encoding_format", " must be \"float\" or \"base64\"");
  return EmbeddingFormat::kBase64;
}

// The text in front of inputs: the one that is named, or the model's default.
std::string read_prompt(FieldReader& fields, const SentencePrompts& prompts) {
  const auto name = fields.string("prompt_name");
  if (!name) return prompts.default_text;
  if (const auto found = prompts.texts.find(*name); found != prompts.texts.end()) return found->second;
  std::string names;
  for (const auto& [known, text] : prompts.texts)
    names += (names.empty() ? "" : ", ") + ("\"" + known + "\"");
  if (names.empty()) {
    fields.fail("prompt_name", " names a prompt, but this model has none");
  } else {
    fields.fail("prompt_name", " must be one of " + std::string(shorten(names, kMaxNamesShown)));
  }
  return {};
}

}  // namespace

std::variant<ApiEmbeddingRequest, ApiError> parse_embedding_request(std::string_view body,
                                                                    const ServedModels& models,
                                                                    const Limits& limits) {
  const auto document = parse_json_object(body, limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  ApiEmbeddingRequest request;
  request.embedding.model = read_model(fields, models, ModelTask::kEmbed);
  if (fields.error()) return *fields.error();
  const ServedModelInfo& model = models[request.embedding.model];
  read_input(fields, limits, read_prompt(fields, model.prompts), request.embedding);
  request.format = read_format(fields);
  const auto dimensions = fields.integer("dimensions", 1, model.embedding_size);
  request.dimensions = static_cast<std::uint32_t>(dimensions.value_or(0));
  request.embedding.truncates = read_truncation(fields, model);
  fields.string("user");  // any: nothing depends on it
  refuse_unsupported_embedding_fields(fields);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace troupe
