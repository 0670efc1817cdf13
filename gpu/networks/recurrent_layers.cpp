// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/recurrent_layers.hpp"

namespace troupe {
namespace {

std::uint32_t num_gates(RecurrentKind kind) { return kind == RecurrentKind::kLstm ? 4 : 3; }

// Floats of a row that a layer has.
std::uint32_t layer_width(const RecurrentLayers& layers) {
  return (layers.kind == RecurrentKind::kLstm ? 2 : 1) * layers.hidden_size;
}

}  // namespace

std::uint32_t RecurrentLayers::row_width() const { return num_layers * layer_width(*this); }

std::uint32_t RecurrentLayers::h_offset(std::uint32_t layer) const {
  return offset + layer * layer_width(*this);
}

// PyTorch's names: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0. The biases stay two: a GRU
// needs them apart.
void RecurrentLayers::add_weights(WeightList& list) const {
  const std::uint32_t rows = num_gates(kind) * hidden_size;
  for (std::uint32_t layer = 0; layer < num_layers; ++layer) {
    const std::string number = std::to_string(layer);
    for (const char* part : {"ih", "hh"}) {
      const bool is_input = part[0] == 'i';
      const std::string in_program = name + "." + number + "." + part;
      list.add_matrix(in_program, {module + ".weight_" + part + "_l" + number}, rows,
                      is_input && layer == 0 ? input_size : hidden_size);
      list.add_vector(in_program + "_bias", {module + ".bias_" + part + "_l" + number}, rows);
    }
  }
}

TensorId RecurrentLayers::write(ProgramWriter& writer, TensorId x) const {
  std::uint32_t width = input_size;
  for (std::uint32_t layer = 0; layer < num_layers; ++layer) {
    const std::string prefix = name + "." + std::to_string(layer) + ".";
    const std::uint32_t rows = num_gates(kind) * hidden_size;
    const TensorId input_gates =
        writer.matmul(prefix + "ih", write_rounded(writer, prefix + "x", x, width), rows, true);
    const TensorId state = writer.temporary(prefix + "state", DataType::kF32, hidden_size);
    writer.add(GatherState{.offset = h_offset(layer), .width = hidden_size}, {}, {state});
    const TensorId state_gates =
        writer.matmul(prefix + "hh", write_rounded(writer, prefix + "h_in", state, hidden_size), rows, true);
    const TensorId h = writer.temporary(prefix + "h", DataType::kF32, hidden_size);
    if (kind == RecurrentKind::kLstm) {
      writer.add(LstmCell{.h_offset = h_offset(layer), .c_offset = h_offset(layer) + hidden_size},
                 {input_gates, state_gates}, {h});
    } else {
      writer.add(GruCell{.h_offset = h_offset(layer)}, {input_gates, state_gates}, {h});
    }
    x = h;
    width = hidden_size;
  }
  return x;
}

TensorId write_rounded(ProgramWriter& writer, const std::string& name, TensorId x, std::uint32_t width,
                       RowCount rows) {
  if (writer.compute_type() == DataType::kF32) return x;
  const TensorId rounded = writer.temporary(name, writer.compute_type(), width, rows);
  writer.add(Activate{Activation::kNone}, {x}, {rounded});
  return rounded;
}

}  // namespace troupe
