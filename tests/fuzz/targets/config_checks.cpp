// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets/config_checks.hpp"

#include <cmath>

#include "tests/fuzz/property.hpp"

namespace troupe::fuzz {

void check_config(const ModelConfig& config) {
  require(config.hidden_size > 0 && config.num_layers > 0 && config.vocabulary_size > 0 &&
              config.context_length > 0,
          "a size is 0");
  require(config.num_heads > 0 && config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads == 0,
          "heads don't divide");
  require(config.head_dim > 0 && config.head_dim <= 256, "the size of a head is out of range");
  require(std::isfinite(config.norm_epsilon) && std::isfinite(config.rope_theta), "a number is not finite");
  for (const std::int32_t token : config.eos_tokens)
    require(token >= 0 && static_cast<std::uint32_t>(token) < config.vocabulary_size,
            "an end token is beyond the vocabulary");
}

void check_defaults(const GenerationDefaults& defaults) {
  require(defaults.temperature.value_or(0) >= 0, "a temperature is negative");
  require(defaults.top_k.value_or(0) >= 0, "a count is negative");
  require(defaults.min_p.value_or(0) >= 0, "a share is negative");
  require(defaults.repetition_penalty.value_or(1) > 0, "a penalty is not positive");
}

}  // namespace troupe::fuzz
