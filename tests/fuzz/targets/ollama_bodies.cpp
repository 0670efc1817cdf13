// SPDX-License-Identifier: Apache-2.0
// JSON bodies of Ollama's endpoints: each is read as a chat, as a text, as inputs of an
// encoder and as a question about a model.
#include <cmath>
#include <string_view>
#include <variant>

#include "http/api/requests/openai_api.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/targets/body_checks.hpp"

namespace troupe::fuzz {
namespace {

bool is_empty(const ChatPrompt& chat) { return chat.messages.empty(); }
bool is_empty(const TokenPrompt& /*prompt*/) { return true; }  // Ollama's clients send none
bool is_empty(const TextPrompt& prompt) { return prompt.text.empty() && !prompt.suffix; }

void check_generation(const std::variant<ApiRequest, ApiError>& parsed, ResponseShape shape) {
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& request = std::get<ApiRequest>(parsed);
  const SamplingParameters& sampling = request.generation.sampling;
  require(request.shape == shape, "another endpoint's answer is wanted");
  require(request.generation.model == 0, "another model than one that generates");
  require(!request.called_model.empty(), "an answer would name no model");
  require(sampling.temperature >= 0 && sampling.top_p > 0 && sampling.top_p <= 1, "sampling is out of range");
  require(sampling.repetition_penalty > 0 && std::isfinite(sampling.repetition_penalty),
          "the repetition penalty is out of range");
  require(request.generation.stop.size() <= kLimits.max_stop_strings, "more stop strings than allowed");
  const bool asks =
      !std::visit([](const auto& prompt) { return is_empty(prompt); }, request.generation.prompt);
  require(asks != request.only_loads,
          "a body without a prompt is to be answered, or one with a prompt is not");
}

void check_inputs(const std::variant<ApiEmbeddingRequest, ApiError>& parsed) {
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& request = std::get<ApiEmbeddingRequest>(parsed);
  require(request.embedding.model == 1, "another model than one that embeds");
  require(!request.called_model.empty(), "an answer would name no model");
  require(request.only_loads == request.embedding.inputs.empty(), "there is nothing to embed");
  require(request.embedding.inputs.size() <= kLimits.max_embedding_inputs, "more inputs than allowed");
  require(request.dimensions <= 4, "more dimensions than the vectors have");
}

}  // namespace

void fuzz_ollama_body(std::string_view bytes) {
  check_document(bytes);
  check_generation(parse_ollama_chat_request(bytes, models(), kLimits), ResponseShape::kOllamaChat);
  check_generation(parse_ollama_generate_request(bytes, models(), kLimits), ResponseShape::kOllamaGenerate);
  check_inputs(parse_ollama_embed_request(bytes, models(), kLimits));
  check_inputs(parse_ollama_embeddings_request(bytes, models(), kLimits));
  const auto shown = parse_ollama_show_request(bytes, models(), kLimits);
  if (const auto* error = std::get_if<ApiError>(&shown)) return check_error(*error);
  require(std::get<ModelIndex>(shown) < models().all().size(), "a model is shown that is not served");
}

}  // namespace troupe::fuzz
