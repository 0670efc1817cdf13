// SPDX-License-Identifier: Apache-2.0
// JSON bodies of the endpoints whose answers are made of vectors: embeddings, classes,
// scores and ranks.
#include <algorithm>
#include <string_view>
#include <variant>

#include "http/api/requests/openai_api.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/targets/body_checks.hpp"

namespace troupe::fuzz {
namespace {

// Errors name an input by the field that it came from.
void check_fields(const EmbeddingRequest& request) {
  std::size_t num_inputs = 0;
  for (const InputField& field : request.fields) num_inputs += field.num_inputs;
  require(request.fields.empty() || num_inputs == request.inputs.size(), "an input is of no field");
}

// The numbers of inputs that the answer's writer counts on.
void check_shape(const ApiEmbeddingRequest& request) {
  const std::size_t num_inputs = request.embedding.inputs.size();
  require(num_inputs > 0 && num_inputs <= 2 * kLimits.max_embedding_inputs,
          "the number of texts is out of bounds");
  require(request.num_first < num_inputs, "nothing is compared");
  const std::size_t num_compared = num_inputs - request.num_first;
  require(request.num_first <= 1 || request.num_first == num_compared, "texts can't be put together");
  require(request.documents.empty() || request.documents.size() == num_compared,
          "other documents are repeated than are ranked");
}

// A classifier's pairs share their first text, and what they have to encode is bounded.
void check_pairs(const EmbeddingRequest& request) {
  std::size_t num_bytes = 0;
  for (const auto& input : request.inputs) {
    const auto* text = std::get_if<TextPrompt>(&input);
    require(text != nullptr && text->first != nullptr, "a pair is none");
    num_bytes += text->text.size() + text->first->size();
  }
  require(num_bytes <= kLimits.max_pair_bytes, "pairs have more bytes than allowed");
}

}  // namespace

void fuzz_embedding_body(std::string_view bytes) {
  check_document(bytes);
  const auto parsed = parse_embedding_request(bytes, models(), kLimits);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return check_error(*error);
  const auto& request = std::get<ApiEmbeddingRequest>(parsed);
  require(request.embedding.model == 1, "another model than one that embeds");
  require(
      !request.embedding.inputs.empty() && request.embedding.inputs.size() <= kLimits.max_embedding_inputs,
      "the number of inputs is out of bounds");
  require(request.dimensions <= 4, "more dimensions than the vectors have");
}

// Of /classify, /score and /rerank.
void fuzz_score_body(std::string_view bytes) {
  check_document(bytes);
  for (const auto parse : {parse_classify_request, parse_score_request, parse_rerank_request}) {
    const auto parsed = parse(bytes, models(), kLimits);
    if (const auto* error = std::get_if<ApiError>(&parsed)) {
      check_error(*error);
      continue;
    }
    const auto& request = std::get<ApiEmbeddingRequest>(parsed);
    require(request.embedding.model != 0, "a model that generates is to score");
    check_fields(request.embedding);
    check_shape(request);
    if (request.use != VectorUse::kClasses && request.num_first == 0) check_pairs(request.embedding);
  }
}

}  // namespace troupe::fuzz
