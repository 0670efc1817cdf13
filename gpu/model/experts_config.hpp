// SPDX-License-Identifier: Apache-2.0
// The fields of config.json that only mixtures of experts have.
#pragma once

#include "gpu/model/config_fields.hpp"
#include "gpu/model/families.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

inline bool is_mixture(Family family) {
  return family == Family::kMixtral || family == Family::kQwen3Moe || family == Family::kGptOss;
}

// Needs config's sizes. Throws std::runtime_error.
ExpertsConfig read_experts(const ConfigFields& fields, Family family, const ModelConfig& config);

}  // namespace troupe
