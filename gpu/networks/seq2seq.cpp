// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/seq2seq.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

constexpr std::uint32_t kUsualSource = 64;  // tokens, whose states the decoder attends to

}  // namespace

Seq2SeqNetwork::Seq2SeqNetwork(ModelConfig config) : config_(std::move(config)) {
  if (!config_.recurrent || config_.recurrent->source_vocabulary == 0)
    throw std::runtime_error("the configuration lacks that of a network from sequence to sequence");
}

std::uint32_t Seq2SeqNetwork::target_vocabulary() const {
  return config_.vocabulary_size - config_.recurrent->source_vocabulary;
}

// Both have the same layers, so the decoder goes on in the encoder's row.
RecurrentLayers Seq2SeqNetwork::layers(CellId cell) const {
  const std::string name = cell == kEncoder ? "encoder" : "decoder";
  return {.kind = config_.recurrent->kind,
          .num_layers = config_.num_layers,
          .input_size = config_.recurrent->embedding_size,
          .hidden_size = config_.hidden_size,
          .name = name,
          .module = name + ".rnn"};
}

ModelShapes Seq2SeqNetwork::shapes() const {
  return {.num_layers = 0,
          .vocabulary_size = config_.vocabulary_size,
          .context_length = config_.context_length,
          .row_width = layers(kEncoder).row_width(),
          .rows_a_sequence = config_.recurrent->attends ? kUsualSource : 1};
}

std::vector<CellType> Seq2SeqNetwork::cells() const {
  return {{.name = "encoder_step", .state = StateKind::kRows, .result = ResultKind::kState},
          {.name = "decoder_step", .state = StateKind::kRows, .result = ResultKind::kToken, .priority = 1}};
}

std::optional<UnfoldingRule> Seq2SeqNetwork::unfolding() const {
  return UnfoldingRule{.kind = UnfoldingKind::kEncodeDecode,
                       .source_end = config_.recurrent->source_end,
                       .decoder_start = config_.recurrent->decoder_start,
                       .attends = config_.recurrent->attends};
}

std::vector<WeightSpec> Seq2SeqNetwork::weights() const {
  const std::uint32_t hidden = config_.hidden_size, embedding = config_.recurrent->embedding_size;
  WeightList list;
  list.add({.name = "embedding",
            .sources = {"decoder.embedding.weight", "encoder.embedding.weight"},
            .rows = config_.vocabulary_size,
            .columns = embedding,
            .is_table = true});
  layers(kEncoder).add_weights(list);
  layers(kDecoder).add_weights(list);
  if (config_.recurrent->attends) {
    list.add_matrix("attention", {"decoder.attention.weight"}, hidden, hidden);
    list.add_matrix("combine", {"decoder.combine.weight"}, hidden, 2 * hidden);
  }
  list.add_projection("output", {"decoder.output"}, target_vocabulary(), hidden, true);
  return std::move(list).take();
}

Program Seq2SeqNetwork::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  ProgramWriter writer(shape, compute_type);
  const std::uint32_t embedding_size = config_.recurrent->embedding_size;
  const TensorId x = writer.temporary("x", DataType::kF32, embedding_size);
  writer.add(Embed{}, {writer.weight("embedding", config_.vocabulary_size, embedding_size)}, {x});
  TensorId h = layers(cell).write(writer, x);
  if (cell == kDecoder) {
    if (config_.recurrent->attends) h = attend(writer, h);
    const TensorId rows =
        writer.temporary("output_rows", DataType::kF32, config_.hidden_size, RowCount::kOutputRows);
    writer.add(GatherRows{}, {h}, {rows});
    const TensorId operand =
        write_rounded(writer, "output_operand", rows, config_.hidden_size, RowCount::kOutputRows);
    writer.add(Sample{}, {writer.matmul("output", operand, target_vocabulary(), true)}, {});
  }
  Program program = std::move(writer).take();
  program.cell = cell;
  return program;
}

// tanh(combine [context; h]); the score of a state is its product with attention h.
TensorId Seq2SeqNetwork::attend(ProgramWriter& writer, TensorId h) const {
  const std::uint32_t hidden = config_.hidden_size;
  const TensorId query =
      writer.matmul("attention", write_rounded(writer, "attention_operand", h, hidden), hidden, false);
  const std::uint32_t offset = layers(kEncoder).h_offset(config_.num_layers - 1);
  const TensorId both = writer.temporary("context_and_h", DataType::kF32, 2 * hidden);
  writer.add(AttendStates{.key_offset = offset, .value_offset = offset}, {query, h}, {both});
  const TensorId combined =
      writer.matmul("combine", write_rounded(writer, "combine_operand", both, 2 * hidden), hidden, false);
  writer.add(Activate{Activation::kTanh}, {combined}, {combined});
  return combined;
}

}  // namespace troupe
