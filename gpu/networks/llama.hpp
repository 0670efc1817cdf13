// SPDX-License-Identifier: Apache-2.0
// The Llama family, with Mistral, Qwen2, Qwen3, Phi-3 and SmolLM3, which differ by their configuration: RMS
// norm, rotary positions, grouped-query attention, gated SiLU, of which Mixtral and Qwen3-MoE have many to
// choose from (experts.hpp). One cell, "decoder_step": advance every
// sequence of a batch by its query tokens and sample where asked.
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/networks/experts.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

class LlamaNetwork final : public Network {
 public:
  explicit LlamaNetwork(ModelConfig config, ExpertNames experts = {});

  ModelShapes shapes() const override;
  std::vector<CellType> cells() const override;
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override { return {"model.layers."}; }
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  ModelConfig config_;
  ExpertNames experts_;
};

}  // namespace troupe
