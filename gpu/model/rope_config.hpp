// SPDX-License-Identifier: Apache-2.0
// The rotary positions of a decoder's config.json: base, scaling and how much of a head
// is rotated.
#pragma once

#include <string>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

// A family's values where a file says nothing.
struct RopeDefaults {
  float theta = 10000.0F;
  float part = 1.0F;  // of a head
};

// Reads "rope_scaling" with "type" as its older spelling, or "rope_parameters" of newer files,
// which hold rope_theta too, perhaps for each kind of layer: those of full attention count. Needs head_dim
// and context_length. Throws std::runtime_error.
void read_rope(const ConfigFields& fields, const std::string& file, RopeDefaults defaults,
               ModelConfig& config);

}  // namespace troupe
