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
  return body;
}

std::string text_of(const json& body) { return body.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string_view endpoint_path(Endpoint endpoint) {
  return endpoint == Endpoint::kChat ? "/v1/chat/completions" : "/v1/completions";
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

}  // namespace troupe::loadgen
