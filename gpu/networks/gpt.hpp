// SPDX-License-Identifier: Apache-2.0
// GPT-2, OPT, GPT-NeoX (Pythia) and GPT-J: layer norms with biases, a feed-forward of one activation, no
// gate. GPT-2 and OPT add a table of positions to their embeddings; GPT-NeoX and GPT-J rotate part of a head,
// and may let attention and feed-forward of a layer read the same x, GPT-J the same norm of it.
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

class GptNetwork final : public Network {
 public:
  // Throws std::runtime_error without config.gpt.
  explicit GptNetwork(ModelConfig config);

  ModelShapes shapes() const override;
  std::vector<CellType> cells() const override;
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override;
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  ModelConfig config_;
};

}  // namespace troupe
