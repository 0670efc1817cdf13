// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/completion_request.hpp"

#include <nlohmann/json.hpp>

namespace troupe::loadgen {
namespace {

using nlohmann::json;

json common_fields(const SamplingFields& fields) {
  json body = {{"model", fields.model},
               {"stream", fields.is_streamed},
               {"temperature", fields.temperature},
               {"max_tokens", fields.max_tokens}};
  if (fields.is_streamed) body["stream_options"] = {{"include_usage", true}};
  if (fields.seed) body["seed"] = *fields.seed;
  if (fields.ignore_eos) {
    body["ignore_eos"] = true;
    body["min_tokens"] = fields.max_tokens;
  }
  if (fields.foretold_tokens > 0) body["troupe_answer_tokens"] = fields.foretold_tokens;
  return body;
}

std::string text_of(const json& body) { return body.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string_view endpoint_path(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChat: return "/v1/chat/completions";
    case Endpoint::kCompletions: return "/v1/completions";
    case Endpoint::kResponses: return "/v1/responses";
    case Endpoint::kEmbeddings: return "/v1/embeddings";
    case Endpoint::kClassify: return "/v1/classify";
  }
  return {};
}

std::string chat_body(const SamplingFields& fields, const std::vector<ChatMessage>& messages) {
  auto body = common_fields(fields);
  auto& list = body["messages"] = json::array();
  for (const auto& message : messages) list.push_back({{"role", message.role}, {"content", message.text}});
  return text_of(body);
}

std::string completion_body(const SamplingFields& fields, std::string_view prompt) {
  auto body = common_fields(fields);
  body["prompt"] = prompt;
  return text_of(body);
}

std::string completion_body(const SamplingFields& fields, const std::vector<std::int32_t>& prompt_ids) {
  auto body = common_fields(fields);
  body["prompt"] = prompt_ids;
  return text_of(body);
}

std::string response_body(const SamplingFields& fields, std::string_view input, std::string_view instructions,
                          std::string_view previous_response_id) {
  auto body = common_fields(fields);
  body.erase("max_tokens");
  body.erase("stream_options");
  body["max_output_tokens"] = fields.max_tokens;
  body["input"] = input;
  if (!instructions.empty()) body["instructions"] = instructions;
  if (!previous_response_id.empty()) body["previous_response_id"] = previous_response_id;
  return text_of(body);
}

std::string embedding_body(const SamplingFields& fields, std::string_view input) {
  return text_of({{"model", fields.model}, {"input", input}, {"encoding_format", "base64"}});
}

std::string classify_body(const SamplingFields& fields, std::string_view input) {
  return text_of({{"model", fields.model}, {"input", input}});
}

}  // namespace troupe::loadgen
