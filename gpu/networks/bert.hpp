// SPDX-License-Identifier: Apache-2.0
// BERT and its relatives RoBERTa, DistilBERT and ALBERT: learned positions, LayerNorm
// behind every sum, attention to both sides. One cell, "encoder_pass": every slice is a
// whole text or a pair of them, of which one vector comes: tokens pooled
// (gpu/networks/sentence_modules.hpp), or a classifier's numbers, one a label.
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

class BertNetwork final : public Network {
 public:
  // Throws std::runtime_error if the configuration is not an encoder's.
  explicit BertNetwork(ModelConfig config);

  ModelShapes shapes() const override;
  std::vector<CellType> cells() const override;
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override;
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  std::uint32_t vector_size() const;

  ModelConfig config_;
};

}  // namespace troupe
