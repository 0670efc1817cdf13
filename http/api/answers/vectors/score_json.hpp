// SPDX-License-Identifier: Apache-2.0
// Answers that are made of vectors: classes of texts, scores of pairs, documents by how
// well they answer a query. Pure.
#pragma once

#include <span>
#include <vector>

#include "actors/request/generation_request.hpp"
#include "http/api/answers/answer_json.hpp"
#include "http/api/requests/openai_api.hpp"
#include "http/api/served_model_info.hpp"

namespace troupe {

// One number a pair: a classifier's, between 0 and 1 if the request has it activated, or
// the cosine of two vectors; 0 if one has no length.
std::vector<float> scores_of(const ApiEmbeddingRequest& request, const Embedded& answer);

// {"id":…,"object":"list",…,"data":[{"index":0,"label":…,"probs":[…],"num_classes":…}],…}
// request, model and answer outlive what is taken from json.
void append_classes(AnswerJson& json, const ApiEmbeddingRequest& request, const ServedModelInfo& model,
                    const Embedded& answer);
// {"id":…,"object":"list",…,"data":[{"index":0,"object":"score","score":…}],…}
void append_scores(AnswerJson& json, const ApiEmbeddingRequest& request, const ServedModelInfo& model,
                   const Embedded& answer);
// {"id":…,"model":…,"results":[{"index":…,"document":{"text":…},"relevance_score":…}],…}, best
// first, ties by index.
void append_ranks(AnswerJson& json, const ApiEmbeddingRequest& request, const ServedModelInfo& model,
                  const Embedded& answer);

}  // namespace troupe
