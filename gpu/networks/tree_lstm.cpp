// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/tree_lstm.hpp"

#include <stdexcept>
#include <utility>

#include "gpu/networks/recurrent_layers.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kUsualTree = 32;  // leaves
constexpr std::uint32_t kMaxChildren = 4096;

}  // namespace

TreeLstmNetwork::TreeLstmNetwork(ModelConfig config) : config_(std::move(config)) {
  if (!config_.tree) throw std::runtime_error("the configuration lacks that of a Tree-LSTM");
}

std::uint32_t TreeLstmNetwork::num_labels() const {
  return static_cast<std::uint32_t>(config_.tree->labels.size());
}

// A row has h, c, and of a child sum what the node gives to its parent's forget gate.
ModelShapes TreeLstmNetwork::shapes() const {
  return {.num_layers = 0,
          .vocabulary_size = config_.vocabulary_size,
          .context_length = config_.context_length,
          .row_width = (config_.tree->is_binary ? 2 : 3) * config_.hidden_size,
          .rows_a_sequence = kUsualTree};
}

std::vector<CellType> TreeLstmNetwork::cells() const {
  CellType word{.name = "tree_word",
                .state = StateKind::kRows,
                .result = ResultKind::kVector,
                .vector_size = num_labels()};
  CellType inner = word;
  inner.name = "tree_inner";
  inner.priority = 1;
  return {std::move(word), std::move(inner)};
}

std::optional<UnfoldingRule> TreeLstmNetwork::unfolding() const {
  const bool is_binary = config_.tree->is_binary;
  return UnfoldingRule{.kind = UnfoldingKind::kTree,
                       .max_children = is_binary ? 2 : kMaxChildren,
                       .is_exactly_max = is_binary,
                       .has_inner_words = !is_binary,
                       .unknown_word = config_.tree->unknown_word.value_or(-1)};
}

std::vector<WeightSpec> TreeLstmNetwork::weights() const {
  const std::uint32_t hidden = config_.hidden_size, embedding = config_.tree->embedding_size;
  WeightList list;
  list.add_table("embedding", "embedding.weight", config_.vocabulary_size, embedding);
  if (config_.tree->is_binary) {
    list.add_projection("leaf", {"leaf"}, 2 * hidden, embedding, true);
    list.add_projection("internal", {"internal"}, 5 * hidden, 2 * hidden, true);
  } else {
    list.add_projection("input", {"ioux", "fx"}, 4 * hidden, embedding, true);
    list.add_projection("iouh", {"iouh"}, 3 * hidden, hidden, true);
    list.add_projection("fh", {"fh"}, hidden, hidden, true);
  }
  list.add_projection("output", {"output"}, num_labels(), hidden, true);
  return std::move(list).take();
}

Program TreeLstmNetwork::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  ProgramWriter writer(shape, compute_type);
  const TensorId h = config_.tree->is_binary ? binary(writer, cell) : child_sum(writer, cell);
  const TensorId operand = write_rounded(writer, "output_operand", h, config_.hidden_size);
  writer.add(WriteVectors{}, {writer.matmul("output", operand, num_labels(), true)}, {});
  Program program = std::move(writer).take();
  program.cell = cell;
  return program;
}

TensorId TreeLstmNetwork::word(ProgramWriter& writer) const {
  const std::uint32_t width = config_.tree->embedding_size;
  const TensorId x = writer.temporary("x", DataType::kF32, width);
  writer.add(Embed{}, {writer.weight("embedding", config_.vocabulary_size, width)}, {x});
  return write_rounded(writer, "x_operand", x, width);
}

TensorId TreeLstmNetwork::binary(ProgramWriter& writer, CellId cell) const {
  const std::uint32_t hidden = config_.hidden_size;
  const TensorId h = writer.temporary("h", DataType::kF32, hidden);
  if (cell == kWord) {
    writer.add(TreeLstmLeaf{.h_offset = 0, .c_offset = hidden},
               {writer.matmul("leaf", word(writer), 2 * hidden, true)}, {h});
    return h;
  }
  const TensorId children = writer.temporary("children", DataType::kF32, 2 * hidden);
  writer.add(GatherState{.offset = 0, .width = hidden, .num_inputs = 2}, {}, {children});
  const TensorId operand = write_rounded(writer, "children_operand", children, 2 * hidden);
  writer.add(TreeLstmBinary{.h_offset = 0, .c_offset = hidden},
             {writer.matmul("internal", operand, 5 * hidden, true)}, {h});
  return h;
}

TensorId TreeLstmNetwork::child_sum(ProgramWriter& writer, CellId cell) const {
  const std::uint32_t hidden = config_.hidden_size;
  const TensorId children = writer.temporary("children", DataType::kF32, hidden);
  writer.add(GatherState{.offset = 0, .width = hidden, .sums = true}, {}, {children});
  const TensorId state_gates =
      writer.matmul("iouh", write_rounded(writer, "children_operand", children, hidden), 3 * hidden, true);
  // Without a word the input is zeros, so nothing is left of its product but the bias.
  const TensorId input_gates = cell == kWord ? writer.matmul("input", word(writer), 4 * hidden, true)
                                             : writer.weight("input_bias", 1, 4 * hidden);
  const TensorId h = writer.temporary("h", DataType::kF32, hidden);
  writer.add(TreeLstmChildSum{.h_offset = 0, .c_offset = hidden, .forget_offset = 2 * hidden},
             {state_gates, input_gates}, {h});
  writer.add(KeepState{.offset = 2 * hidden},
             {writer.matmul("fh", write_rounded(writer, "h_operand", h, hidden), hidden, true)}, {});
  return h;
}

}  // namespace troupe
