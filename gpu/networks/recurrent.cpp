// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/recurrent.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

RecurrentNetwork::RecurrentNetwork(ModelConfig config) : config_(std::move(config)) {
  if (!config_.recurrent) throw std::runtime_error("the configuration lacks that of a recurrent network");
}

RecurrentLayers RecurrentNetwork::layers() const {
  return {.kind = config_.recurrent->kind,
          .num_layers = config_.num_layers,
          .input_size = config_.recurrent->embedding_size,
          .hidden_size = config_.hidden_size,
          .name = "rnn",
          .module = "rnn"};
}

ModelShapes RecurrentNetwork::shapes() const {
  return {.num_layers = 0,
          .vocabulary_size = config_.vocabulary_size,
          .context_length = config_.context_length,
          .row_width = layers().row_width()};
}

std::vector<CellType> RecurrentNetwork::cells() const {
  return {{.name = "recurrent_step", .state = StateKind::kRows, .result = ResultKind::kToken}};
}

std::vector<WeightSpec> RecurrentNetwork::weights() const {
  WeightList list;
  list.add_table("embedding", "embedding.weight", config_.vocabulary_size, config_.recurrent->embedding_size);
  layers().add_weights(list);
  const std::string output = config_.tied_embeddings ? "embedding" : "output";
  list.add_matrix("output", {output + ".weight"}, config_.vocabulary_size, config_.hidden_size);
  list.add_vector("output_bias", {"output.bias"}, config_.vocabulary_size);
  return std::move(list).take();
}

Program RecurrentNetwork::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  ProgramWriter writer(shape, compute_type);
  const std::uint32_t embedding_size = config_.recurrent->embedding_size;
  const TensorId x = writer.temporary("x", DataType::kF32, embedding_size);
  writer.add(Embed{}, {writer.weight("embedding", config_.vocabulary_size, embedding_size)}, {x});
  const TensorId h = layers().write(writer, x);
  const TensorId rows =
      writer.temporary("output_rows", DataType::kF32, config_.hidden_size, RowCount::kOutputRows);
  writer.add(GatherRows{}, {h}, {rows});
  const TensorId operand =
      write_rounded(writer, "output_operand", rows, config_.hidden_size, RowCount::kOutputRows);
  writer.add(Sample{}, {writer.matmul("output", operand, config_.vocabulary_size, true)}, {});
  return std::move(writer).take();
}

}  // namespace troupe
