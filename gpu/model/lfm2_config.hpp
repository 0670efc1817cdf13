// SPDX-License-Identifier: Apache-2.0
// The fields of config.json that only LFM2 has.
#pragma once

#include "gpu/model/config_fields.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

// Beside `lfm2` also intermediate_size, which was read as it is stated, norm_epsilon and what LFM2 always
// has. Throws std::runtime_error.
void read_lfm2(const ConfigFields& fields, ModelConfig& config);

}  // namespace troupe
