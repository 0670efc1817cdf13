// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/network.hpp"

#include <stdexcept>

#include "gpu/networks/llama.hpp"

namespace troupe {

std::unique_ptr<Network> make_network(const ModelConfig& config) {
  // Mistral without a sliding window is a Llama; load_model_config refuses the rest.
  if (config.architecture == "LlamaForCausalLM" || config.architecture == "MistralForCausalLM") {
    return std::make_unique<LlamaNetwork>(config);
  }
  throw std::runtime_error("the architecture \"" + config.architecture + "\" is not supported");
}

}  // namespace troupe
