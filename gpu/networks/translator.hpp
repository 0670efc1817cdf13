// SPDX-License-Identifier: Apache-2.0
// Transformer encoder-decoders with waves for positions (Marian, M2M100). "encoder_pass" reads a
// source as a whole; what it leaves in a decoder layer's KV pages, at the source's positions, are the
// keys and values that the layer's cross attention reads. "decoder_step" keeps those of its own
// attention behind them, in the same pages: a sequence is the source, then the answer.
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

class TranslatorNetwork final : public Network {
 public:
  static constexpr CellId kEncoder = 0, kDecoder = 1;

  // Throws std::runtime_error without config.translator.
  explicit TranslatorNetwork(ModelConfig config);

  ModelShapes shapes() const override;
  std::vector<CellType> cells() const override;
  std::optional<SourceRule> source() const override;
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override;
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  ModelConfig config_;
};

}  // namespace troupe
