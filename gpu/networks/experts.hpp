// SPDX-License-Identifier: Apache-2.0
// The feed-forward of a layer that is a mixture of experts: a router chooses some for each token, each
// computes its own gated feed-forward over the rows that chose it, and a token's results are summed by the
// router's shares.
#pragma once

#include <string>

#include "gpu/model/model_config.hpp"
#include "gpu/networks/program_writer.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {

// A family's modules in files.
struct ExpertNames {
  const char *mixture = "mlp.", *router = "gate", *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
};

// False: the layer is dense.
bool is_mixed(const ModelConfig& config, std::uint32_t layer);
// The others take a configuration with experts, and the prefix of the layer's names.
void list_experts(WeightList& list, const ModelConfig& config, const ExpertNames& names,
                  const std::string& prefix);
// Returns the sums, f32 of the width of `normed`.
TensorId write_experts(ProgramWriter& writer, const ModelConfig& config, const std::string& prefix,
                       TensorId normed);

}  // namespace troupe
