// SPDX-License-Identifier: Apache-2.0
// What the HTTP side must know of the model it offers: its name, how long a
// sequence may be and what a request means that leaves things unsaid.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

// Sampling defaults; the model's generation_config.json overrides them.
struct SamplingDefaults {
  float temperature = 1.0F;
  float top_p = 1.0F;
  float min_p = 0.0F;
  std::int32_t top_k = 0;  // 0: all
};

struct ServedModelInfo {
  std::string name;
  std::int64_t created = 0;  // Unix seconds
  std::uint32_t context_length = 0;
  SamplingDefaults defaults;
};

}  // namespace troupe
