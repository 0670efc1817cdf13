// SPDX-License-Identifier: Apache-2.0
// The Llama family: RMS norm, rotary positions, grouped-query attention, gated
// SiLU. One cell, "decoder_step": advance every sequence of a batch by its
// query tokens and sample where asked.
#pragma once

#include "gpu/networks/network.hpp"

namespace troupe {

class LlamaNetwork final : public Network {
 public:
  explicit LlamaNetwork(ModelConfig config);

  const ModelConfig& config() const override { return config_; }
  std::vector<WeightSpec> weights() const override;
  Program build_program(const std::string& cell, ProgramShape shape, DataType compute_type) const override;

 private:
  ModelConfig config_;
};

}  // namespace troupe
