// SPDX-License-Identifier: Apache-2.0
// Language models of an LSTM or a GRU: an embedding, layers, a linear output. One cell,
// "recurrent_step": a node reads a token and the state in front of it, and draws the next
// token where one is wanted.
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/networks/recurrent_layers.hpp"

namespace troupe {

class RecurrentNetwork final : public Network {
 public:
  // Throws std::runtime_error if the configuration is not one of a recurrent network.
  explicit RecurrentNetwork(ModelConfig config);

  ModelShapes shapes() const override;
  std::vector<CellType> cells() const override;
  std::optional<UnfoldingRule> unfolding() const override { return UnfoldingRule{}; }
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override { return {}; }
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  RecurrentLayers layers() const;

  ModelConfig config_;
};

}  // namespace troupe
