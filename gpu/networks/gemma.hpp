// SPDX-License-Identifier: Apache-2.0
// Gemma 2 and 3, which differ by their configuration. Beyond Llama: norms behind each block as well as in
// front of it, embeddings times the root of their width, tanh-GELU, soft caps, layers that slide over a
// window beside such that see everything (in Gemma 3 by another rotary base, with norms of heads).
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

class GemmaNetwork final : public Network {
 public:
  // Throws std::runtime_error without config.gemma.
  explicit GemmaNetwork(ModelConfig config);

  ModelShapes shapes() const override;
  std::vector<CellType> cells() const override;
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override { return {"model.layers."}; }
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  ModelConfig config_;
};

}  // namespace troupe
