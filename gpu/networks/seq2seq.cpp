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
  const bool reads_context = cell == kDecoder && attention() == RecurrentAttention::kAdditive;
  return {.kind = config_.recurrent->kind,
          .num_layers = config_.num_layers,
          .input_size = config_.recurrent->embedding_size + (reads_context ? config_.hidden_size : 0),
          .hidden_size = config_.hidden_size,
          .name = name,
          .module = name + ".rnn"};
}

// The last layer's h in a row, to which decoders attend; behind all layers the key of additive
// scores, which is computed once.
std::uint32_t Seq2SeqNetwork::state_offset() const {
  return layers(kEncoder).h_offset(config_.num_layers - 1);
}

std::uint32_t Seq2SeqNetwork::key_offset() const {
  return attention() == RecurrentAttention::kAdditive ? layers(kEncoder).row_width() : state_offset();
}

ModelShapes Seq2SeqNetwork::shapes() const {
  const bool keeps_keys = attention() == RecurrentAttention::kAdditive;
  return {.num_layers = 0,
          .vocabulary_size = config_.vocabulary_size,
          .context_length = config_.context_length,
          .row_width = layers(kEncoder).row_width() + (keeps_keys ? config_.hidden_size : 0),
          .rows_a_sequence = attends() ? kUsualSource : 1};
}

std::vector<CellType> Seq2SeqNetwork::cells() const {
  return {{.name = "encoder_step", .state = StateKind::kRows, .result = ResultKind::kState},
          {.name = "decoder_step", .state = StateKind::kRows, .result = ResultKind::kToken, .priority = 1}};
}

std::optional<UnfoldingRule> Seq2SeqNetwork::unfolding() const {
  return UnfoldingRule{.kind = UnfoldingKind::kEncodeDecode,
                       .source_end = config_.recurrent->source_end,
                       .decoder_start = config_.recurrent->decoder_start,
                       .attends = attends()};
}

std::vector<WeightSpec> Seq2SeqNetwork::weights() const {
  WeightList list;
  list.add({.name = "embedding",
            .sources = {"decoder.embedding.weight", "encoder.embedding.weight"},
            .rows = config_.vocabulary_size,
            .columns = config_.recurrent->embedding_size,
            .is_table = true});
  layers(kEncoder).add_weights(list);
  layers(kDecoder).add_weights(list);
  add_attention(list);
  list.add_projection("output", {"decoder.output"}, target_vocabulary(), config_.hidden_size, true);
  return std::move(list).take();
}

// Additive: the names of PyTorch's tutorial. The bias of Va is the same in all scores.
void Seq2SeqNetwork::add_attention(WeightList& list) const {
  const std::uint32_t hidden = config_.hidden_size;
  if (!attends()) return;
  if (attention() == RecurrentAttention::kAdditive) {
    list.add_projection("query", {"decoder.attention.Wa"}, hidden, hidden, true);
    list.add_projection("key", {"decoder.attention.Ua"}, hidden, hidden, true);
    list.add_vector("score", {"decoder.attention.Va.weight"}, hidden);
    return;
  }
  if (attention() == RecurrentAttention::kGeneral)
    list.add_matrix("attention", {"decoder.attention.weight"}, hidden, hidden);
  list.add_matrix("combine", {"decoder.combine.weight"}, hidden, 2 * hidden);
}

Program Seq2SeqNetwork::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  ProgramWriter writer(shape, compute_type);
  const std::uint32_t embedding_size = config_.recurrent->embedding_size;
  const TensorId x = writer.temporary("x", DataType::kF32, embedding_size);
  writer.add(Embed{}, {writer.weight("embedding", config_.vocabulary_size, embedding_size)}, {x});
  const TensorId h = cell == kEncoder ? write_encoder(writer, x) : write_decoder(writer, x);
  if (cell == kDecoder) {
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

TensorId Seq2SeqNetwork::write_encoder(ProgramWriter& writer, TensorId x) const {
  const std::uint32_t hidden = config_.hidden_size;
  const TensorId h = layers(kEncoder).write(writer, x);
  if (attention() == RecurrentAttention::kAdditive)
    writer.add(KeepState{.offset = key_offset()},
               {writer.matmul("key", write_rounded(writer, "key_operand", h, hidden), hidden, true)}, {});
  return h;
}

TensorId Seq2SeqNetwork::write_decoder(ProgramWriter& writer, TensorId x) const {
  if (attention() == RecurrentAttention::kAdditive)
    return layers(kDecoder).write(writer, attend_before(writer, x));
  const TensorId h = layers(kDecoder).write(writer, x);
  return attends() ? attend_behind(writer, h) : h;
}

// [x; context], by the state in front of this step.
TensorId Seq2SeqNetwork::attend_before(ProgramWriter& writer, TensorId x) const {
  const std::uint32_t hidden = config_.hidden_size;
  const TensorId state = writer.temporary("query_state", DataType::kF32, hidden);
  writer.add(GatherState{.offset = state_offset(), .width = hidden}, {}, {state});
  const TensorId query =
      writer.matmul("query", write_rounded(writer, "query_operand", state, hidden), hidden, true);
  const TensorId both =
      writer.temporary("x_and_context", DataType::kF32, config_.recurrent->embedding_size + hidden);
  writer.add(AdditiveAttention{.key_offset = key_offset(), .value_offset = state_offset()},
             {query, x, writer.weight("score", 1, hidden)}, {both});
  return both;
}

// tanh(combine [context; h]); the score of a state is its product with h, or with attention h.
TensorId Seq2SeqNetwork::attend_behind(ProgramWriter& writer, TensorId h) const {
  const std::uint32_t hidden = config_.hidden_size;
  const TensorId query =
      attention() == RecurrentAttention::kDot
          ? h
          : writer.matmul("attention", write_rounded(writer, "attention_operand", h, hidden), hidden, false);
  const TensorId both = writer.temporary("context_and_h", DataType::kF32, 2 * hidden);
  writer.add(AttendStates{.key_offset = key_offset(), .value_offset = state_offset()}, {query, h}, {both});
  const TensorId combined =
      writer.matmul("combine", write_rounded(writer, "combine_operand", both, 2 * hidden), hidden, false);
  writer.add(Activate{Activation::kTanh}, {combined}, {combined});
  return combined;
}

}  // namespace troupe
