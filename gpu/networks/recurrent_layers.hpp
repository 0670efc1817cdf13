// SPDX-License-Identifier: Apache-2.0
// Layers of LSTMs and GRUs in programs: the products of one step, and the cell behind them.
// A row of state has h of each layer, and c behind it for an LSTM.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/model/model_config.hpp"
#include "gpu/networks/program_writer.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {

struct RecurrentLayers {
  RecurrentKind kind = RecurrentKind::kLstm;
  std::uint32_t num_layers = 1;
  std::uint32_t input_size = 0;
  std::uint32_t hidden_size = 0;
  std::string name;          // of the weights in programs: "rnn"
  std::string module;        // in the files, a torch.nn.LSTM or GRU: "encoder.rnn"
  std::uint32_t offset = 0;  // of the first layer's h in a row

  std::uint32_t row_width() const;  // floats, of all layers
  std::uint32_t h_offset(std::uint32_t layer) const;
  void add_weights(WeightList& list) const;
  // One step of all layers; x is f32 [tokens, input_size]. The last layer's h, f32.
  TensorId write(ProgramWriter& writer, TensorId x) const;
};

// x as an operand of products: x itself if they are of f32, else a rounded copy.
TensorId write_rounded(ProgramWriter& writer, const std::string& name, TensorId x, std::uint32_t width,
                       RowCount rows = RowCount::kTokens);

}  // namespace troupe
