// SPDX-License-Identifier: Apache-2.0
// A request for the vectors of texts, as the HTTP layer hands it to the engine; of a
// classifier a vector is a number for each label. Its answer is one event, Embedded or
// Failed. Plain values.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "actors/request/generation_request.hpp"

namespace troupe {

// A field of the client's request that inputs come from, for errors.
struct InputField {
  std::string name;
  std::size_t num_inputs = 0;
  bool is_list = true;
};

struct EmbeddingRequest {
  std::string id;      // ours: "embd-…"; used in logs and traces
  std::string tenant;  // the owner
  std::string flow;    // as GenerationRequest::flow
  ModelIndex model = 0;
  std::vector<std::variant<TextPrompt, TokenPrompt>> inputs;
  bool truncates = false;  // inputs longer than the model's limit lose their end
  RequestOrigin origin;
  std::shared_ptr<TenantTab> tab = {};  // as GenerationRequest::tab
  std::vector<InputField> fields = {};  // in the order of the inputs; empty: all are of "input"
};

// "input", "input[3]", "documents[0]"
std::string name_of_input(const EmbeddingRequest& request, std::size_t input);

}  // namespace troupe
