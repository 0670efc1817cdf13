// SPDX-License-Identifier: Apache-2.0
// The fields of config.json that only mixtures of experts have.
#pragma once

#include <vector>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

// A family's names of fields.
struct ExpertFields {
  const char *count = "num_local_experts", *width = "intermediate_size";
};

// Counts and sizes. Needs config's sizes. Throws std::runtime_error.
ExpertsConfig read_experts(const ConfigFields& fields, ExpertFields names, const ModelConfig& config);

}  // namespace troupe
