// SPDX-License-Identifier: Apache-2.0
// Tree-LSTMs (Tai, Socher, Manning 2015) that give a number for each label at every node of
// a tree. Two cells: "tree_word" runs nodes with a word, "tree_inner" those without.
//
//   binary:    words are leaves; an inner node has two children
//   child sum: any node may have any number of children, and a word or none
#pragma once

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/networks/program_writer.hpp"

namespace troupe {

class TreeLstmNetwork final : public Network {
 public:
  static constexpr CellId kWord = 0, kInner = 1;

  // Throws std::runtime_error if the configuration is not that of a Tree-LSTM.
  explicit TreeLstmNetwork(ModelConfig config);

  ModelShapes shapes() const override;
  std::vector<CellType> cells() const override;
  std::optional<UnfoldingRule> unfolding() const override;
  std::vector<WeightSpec> weights() const override;
  std::vector<std::string> layer_prefixes() const override { return {}; }
  Program build_program(CellId cell, ProgramShape shape, DataType compute_type) const override;

 private:
  std::uint32_t num_labels() const;
  TensorId word(ProgramWriter& writer) const;
  TensorId binary(ProgramWriter& writer, CellId cell) const;
  TensorId child_sum(ProgramWriter& writer, CellId cell) const;

  ModelConfig config_;
};

}  // namespace troupe
