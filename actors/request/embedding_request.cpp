// SPDX-License-Identifier: Apache-2.0
#include "actors/request/embedding_request.hpp"

namespace troupe {

std::string name_of_input(const EmbeddingRequest& request, std::size_t input) {
  for (const InputField& field : request.fields) {
    if (input < field.num_inputs)
      return field.is_list ? field.name + "[" + std::to_string(input) + "]" : field.name;
    input -= field.num_inputs;
  }
  return request.inputs.size() > 1 ? "input[" + std::to_string(input) + "]" : "input";
}

}  // namespace troupe
