// SPDX-License-Identifier: Apache-2.0
// Sequence to sequence with two LSTMs or GRUs: "encoder_step" reads the source token by
// token, its last state starts "decoder_step", which reads the token it drew before. With
// attention a step of the decoder reads all states of the encoder: by Luong's scores (Luong, Pham,
// Manning 2015), and its output comes from tanh(combine [context; h]); or by additive ones
// (Bahdanau, Cho, Bengio 2015) of the state before the step, which reads [x; context].
//
// Ids of the source begin behind those of the target: one vocabulary has both.
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/networks/recurrent_layers.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {

class Seq2SeqNetwork final : public Network {
 public:
  static constexpr CellId kEncoder = 0, kDecoder = 1;

  // Throws std::runtime_error if the configuration is not one of such a network.
  explicit Seq2SeqNetwork(ModelConfig config);

  ModelShapes shapes() const override;
  std::vector<CellType> cells() const override;
  std::optional<UnfoldingRule> unfolding() const override;
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override { return {}; }
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  std::uint32_t target_vocabulary() const;
  RecurrentLayers layers(CellId cell) const;
  bool attends() const { return attention() != RecurrentAttention::kNone; }
  RecurrentAttention attention() const { return config_.recurrent->attention; }
  std::uint32_t state_offset() const;
  std::uint32_t key_offset() const;
  void add_attention(WeightList& list) const;
  TensorId write_encoder(ProgramWriter& writer, TensorId x) const;
  TensorId write_decoder(ProgramWriter& writer, TensorId x) const;
  TensorId attend_before(ProgramWriter& writer, TensorId x) const;
  TensorId attend_behind(ProgramWriter& writer, TensorId h) const;

  ModelConfig config_;
};

}  // namespace troupe
