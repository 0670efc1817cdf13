// SPDX-License-Identifier: Apache-2.0
// The fields of config.json that only Gemma 2 and 3 have.
#pragma once

#include <string>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/families.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

inline bool is_gemma(Family family) { return family == Family::kGemma2 || family == Family::kGemma3; }

// Needs config's head_dim and rotary_dim. Throws std::runtime_error.
GemmaConfig read_gemma(const ConfigFields& fields, const std::string& file, Family family,
                       const ModelConfig& config);

}  // namespace troupe
