// SPDX-License-Identifier: Apache-2.0
// The fields of config.json that only GPT-2, GPT-NeoX, OPT and GPT-J have.
#pragma once

#include "gpu/model/config_fields.hpp"
#include "gpu/model/families.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

inline bool is_gpt(Family family) {
  return family == Family::kGpt2 || family == Family::kGptNeoX || family == Family::kOpt ||
         family == Family::kGptJ;
}

// Beside `gpt` also norm_epsilon, the biases and GPT-J's rotary_dim. Throws std::runtime_error.
void read_gpt(const ConfigFields& fields, Family family, ModelConfig& config);

}  // namespace troupe
