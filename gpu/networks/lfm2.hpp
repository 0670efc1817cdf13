// SPDX-License-Identifier: Apache-2.0
// LFM2: short convolutions between gates in most layers, grouped-query attention with normed heads in the
// others, gated SiLU behind both. A convolution's state lies in KV pages
// (gpu/operators/short_convolution.hpp), so that a layer of it is one page layer or more.
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

class Lfm2Network final : public Network {
 public:
  // Throws std::runtime_error without config.lfm2.
  explicit Lfm2Network(ModelConfig config);

  ModelShapes shapes() const override;  // num_layers: page layers
  std::uint32_t num_layers() const override { return config_.num_layers; }
  std::vector<CellType> cells() const override;
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override { return {"model.layers."}; }
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  ModelConfig config_;
};

}  // namespace troupe
