// SPDX-License-Identifier: Apache-2.0
// POST /tokenize and POST /detokenize, in vLLM's shapes.
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "http/api/requests/field_reader.hpp"
#include "http/api/requests/message_fields.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/requests/unsupported_fields.hpp"
#include "http/json/json_document.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

// An answer names every token, which takes a dozen times the room of its text.
constexpr std::size_t kMaxTextBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxTokens = 16'384;

void check_length(FieldReader& fields, std::string_view name, std::size_t num_bytes) {
  if (num_bytes > kMaxTextBytes)
    fields.fail(name, " must have at most " + std::to_string(kMaxTextBytes) + " bytes of text here, got " +
                          std::to_string(num_bytes));
}

void read_prompt(FieldReader& fields, const ParseSettings& settings, ApiTokenRequest& request) {
  GenerationRequest& generation = request.generation;
  generation.use = PromptUse::kEncode;
  generation.wants_token_texts = fields.boolean("return_token_strs").value_or(false);
  const bool has_messages = fields.find("messages") != nullptr;
  if (has_messages == (fields.find("prompt") != nullptr))
    return fields.fail("prompt", " or messages must be given, and not both");
  if (has_messages) {
    refuse_unsupported_template_fields(fields);
    auto& chat = generation.prompt.emplace<ChatPrompt>();
    read_chat_prompt(fields, settings, chat);
    std::size_t num_bytes = chat.tools.size();
    for (const ChatMessage& message : chat.messages) num_bytes += text_bytes(message);
    return check_length(fields, "messages", num_bytes);
  }
  generation.prompt = TextPrompt{.text = fields.string("prompt").value_or(""),
                                 .adds_special_tokens = fields.boolean("add_special_tokens").value_or(true)};
  check_length(fields, "prompt", std::get<TextPrompt>(generation.prompt).text.size());
}

void read_tokens(FieldReader& fields, ApiTokenRequest& request) {
  request.answer = ApiTokenRequest::Answer::kText;
  request.generation.use = PromptUse::kDecode;
  const auto* tokens = fields.find("tokens");
  if (tokens == nullptr) return fields.fail("tokens", " is required");
  if (!tokens->is_array()) return fields.fail("tokens", "a list of token ids", *tokens);
  if (tokens->get_array().size() > kMaxTokens)
    return fields.fail("tokens", " must be at most " + std::to_string(kMaxTokens) + " ids, got " +
                                     std::to_string(tokens->get_array().size()));
  read_token_ids(fields, "tokens", tokens->get_array(),
                 request.generation.prompt.emplace<TokenPrompt>().tokens);
}

template <typename ReadOwnFields>
std::variant<ApiTokenRequest, ApiError> parse(std::string_view body, const ServedModels& models,
                                              const Limits& limits, const ReadOwnFields& read_own_fields) {
  const auto document = parse_json_object(body, limits);
  if (const auto* error = std::get_if<ApiError>(&document)) return *error;
  FieldReader fields(std::get<json::object>(document));
  ApiTokenRequest request;
  request.generation.model = read_model(fields, models, std::nullopt);
  if (!fields.error()) read_own_fields(fields, request);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace

std::variant<ApiTokenRequest, ApiError> parse_tokenize_request(std::string_view body,
                                                               const ServedModels& models,
                                                               const Limits& limits) {
  return parse(body, models, limits, [&](FieldReader& fields, ApiTokenRequest& request) {
    read_prompt(fields, {models[request.generation.model], limits}, request);
  });
}

std::variant<ApiTokenRequest, ApiError> parse_detokenize_request(std::string_view body,
                                                                 const ServedModels& models,
                                                                 const Limits& limits) {
  return parse(body, models, limits, read_tokens);
}

}  // namespace troupe
