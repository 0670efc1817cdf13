// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/bert.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/networks/encoder_names.hpp"
#include "gpu/networks/program_writer.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

// Layers that have weights of their own.
std::uint32_t num_weight_layers(const ModelConfig& config) {
  const EncoderConfig& encoder = *config.encoder;
  return encoder.family == EncoderFamily::kAlbert ? encoder.num_groups * encoder.layers_a_group
                                                  : config.num_layers;
}

// The layers in the order in which they are run.
std::vector<std::uint32_t> layers_in_order(const ModelConfig& config) {
  const EncoderConfig& encoder = *config.encoder;
  std::vector<std::uint32_t> order;
  for (std::uint32_t layer = 0; layer < config.num_layers; ++layer) {
    if (encoder.family != EncoderFamily::kAlbert) {
      order.push_back(layer);
      continue;
    }
    const std::uint32_t group = layer * encoder.num_groups / config.num_layers;
    for (std::uint32_t inner = 0; inner < encoder.layers_a_group; ++inner)
      order.push_back(group * encoder.layers_a_group + inner);
  }
  return order;
}

// Of the tables of words, positions and types.
std::uint32_t table_width(const ModelConfig& config) {
  return config.encoder->family == EncoderFamily::kAlbert ? config.encoder->embedding_size
                                                          : config.hidden_size;
}

std::uint32_t num_position_rows(const ModelConfig& config) {
  return config.encoder->first_position + config.context_length;
}

std::uint32_t longest_input(const ModelConfig& config) {
  const std::uint32_t stated = config.encoder->max_input_tokens;
  return stated == 0 ? config.context_length : std::min(stated, config.context_length);
}

// Weights of a layer in programs.
std::string layer_prefix(std::uint32_t layer) { return "layer." + std::to_string(layer) + "."; }

// x is the text as every layer leaves it behind, f32; products read it in the compute
// type, which is x itself for f32.
class BertProgram {
 public:
  BertProgram(const ModelConfig& config, ProgramShape shape, DataType compute_type)
      : config_(config), encoder_(*config.encoder), writer_(shape, compute_type) {}

  Program write() && {
    embed();
    for (const std::uint32_t layer : layers_in_order(config_)) {
      attention(layer_prefix(layer));
      feed_forward(layer_prefix(layer));
    }
    if (encoder_.classifier) {
      classify(static_cast<std::uint32_t>(encoder_.classifier->labels.size()));
    } else {
      writer_.add(Pool{.mode = encoder_.pooling, .normalizes = encoder_.normalizes}, {x_}, {});
    }
    return std::move(writer_).take();
  }

 private:
  void embed() {
    const std::uint32_t width = table_width(config_);
    x_ = writer_.temporary("x", DataType::kF32, width);
    std::vector<TensorId> tables = {writer_.weight("embedding", config_.vocabulary_size, width),
                                    writer_.weight("positions", num_position_rows(config_), width)};
    if (encoder_.num_types > 0) tables.push_back(writer_.weight("types", encoder_.num_types, width));
    writer_.add(EmbedPositions{encoder_.first_position}, std::move(tables), {x_});
    norm("embedding_norm", x_, std::nullopt, width);
    if (encoder_.family != EncoderFamily::kAlbert) return;
    x_ = writer_.matmul("embedding_projection", a_, config_.hidden_size, true);
    a_ = rounded("projected", x_, config_.hidden_size, RowCount::kTokens);
  }

  void attention(const std::string& prefix) {
    const TensorId qkv = writer_.matmul(prefix + "qkv", a_, 3 * config_.hidden_size, true);
    const TensorId attended =
        writer_.temporary(prefix + "attended", writer_.compute_type(), config_.hidden_size);
    writer_.add(SelfAttention{}, {qkv}, {attended});
    norm(prefix + "attention_norm", writer_.matmul(prefix + "o", attended, config_.hidden_size, true), x_,
         config_.hidden_size);
  }

  void feed_forward(const std::string& prefix) {
    const TensorId up = writer_.matmul(prefix + "up", a_, config_.intermediate_size, true);
    const TensorId h = operand(prefix + "h", up, config_.intermediate_size, RowCount::kTokens);
    writer_.add(Activate{encoder_.activation}, {up}, {h});
    norm(prefix + "output_norm", writer_.matmul(prefix + "down", h, config_.hidden_size, true), x_,
         config_.hidden_size);
  }

  // From the first token of each text.
  void classify(std::uint32_t num_labels) {
    const std::uint32_t hidden = config_.hidden_size;
    const TensorId first = writer_.temporary("first", DataType::kF32, hidden, RowCount::kSlices);
    writer_.add(Pool{.mode = PoolingMode::kCls}, {x_}, {first});
    const TensorId dense =
        writer_.matmul("head", rounded("first_operand", first, hidden, RowCount::kSlices), hidden, true);
    const TensorId h = operand("head_h", dense, hidden, RowCount::kSlices);
    writer_.add(
        Activate{encoder_.family == EncoderFamily::kDistilBert ? Activation::kRelu : Activation::kTanh},
        {dense}, {h});
    writer_.add(WriteVectors{}, {writer_.matmul("classifier", h, num_labels, true)}, {});
  }

  // x = LayerNorm(input + residual), and a, which products read.
  void norm(const std::string& name, TensorId input, std::optional<TensorId> residual, std::uint32_t width) {
    std::vector<TensorId> inputs = {input, writer_.weight(name, 1, width),
                                    writer_.weight(name + "_bias", 1, width)};
    if (residual) inputs.push_back(*residual);
    a_ = operand(name + "ed", x_, width, RowCount::kTokens);
    std::vector<TensorId> outputs = {x_};
    if (a_ != x_) outputs.push_back(a_);
    writer_.add(LayerNorm{config_.norm_epsilon}, std::move(inputs), std::move(outputs));
  }

  // Where what is in f32 goes for a product to read it.
  TensorId operand(std::string name, TensorId in_f32, std::uint32_t width, RowCount rows) {
    if (writer_.compute_type() == DataType::kF32) return in_f32;
    return writer_.temporary(std::move(name), writer_.compute_type(), width, rows);
  }

  // The same, put there.
  TensorId rounded(std::string name, TensorId in_f32, std::uint32_t width, RowCount rows) {
    const TensorId put = operand(std::move(name), in_f32, width, rows);
    if (put != in_f32) writer_.add(Activate{Activation::kNone}, {in_f32}, {put});
    return put;
  }

  const ModelConfig& config_;
  const EncoderConfig& encoder_;
  ProgramWriter writer_;
  TensorId x_ = 0;
  TensorId a_ = 0;
};

// A LayerNorm's, of which the bias is one too.
void add_norm(WeightList& list, const std::string& name, const std::string& module, std::uint32_t width) {
  list.add_vector(name, {module + ".weight"}, width);
  list.add_vector(name + "_bias", {module + ".bias"}, width);
}

void add_layer(WeightList& list, const std::string& prefix, const EncoderLayerNames& names,
               const ModelConfig& config) {
  const std::uint32_t hidden = config.hidden_size;
  list.add_projection(prefix + "qkv", {names.query, names.key, names.value}, 3 * hidden, hidden, true);
  list.add_projection(prefix + "o", {names.attention_output}, hidden, hidden, true);
  add_norm(list, prefix + "attention_norm", names.attention_norm, hidden);
  list.add_projection(prefix + "up", {names.up}, config.intermediate_size, hidden, true);
  list.add_projection(prefix + "down", {names.down}, hidden, config.intermediate_size, true);
  add_norm(list, prefix + "output_norm", names.output_norm, hidden);
}

}  // namespace

BertNetwork::BertNetwork(ModelConfig config) : config_(std::move(config)) {
  if (!config_.encoder) throw std::runtime_error("a BERT's configuration lacks that of an encoder");
}

ModelShapes BertNetwork::shapes() const {
  return {.num_layers = config_.num_layers,
          .num_heads = config_.num_heads,
          .num_kv_heads = config_.num_kv_heads,
          .head_dim = config_.head_dim,
          .vocabulary_size = config_.vocabulary_size,
          .context_length = longest_input(config_)};
}

std::vector<CellType> BertNetwork::cells() const {
  return {{.name = "encoder_pass",
           .state = StateKind::kNone,
           .result = ResultKind::kVector,
           .vector_size = vector_size()}};
}

std::uint32_t BertNetwork::vector_size() const {
  const auto& classifier = config_.encoder->classifier;
  return classifier ? static_cast<std::uint32_t>(classifier->labels.size()) : config_.hidden_size;
}

std::vector<WeightSpec> BertNetwork::weights() const {
  const EncoderConfig& encoder = *config_.encoder;
  const EncoderNames names = encoder_names(encoder.family);
  const std::uint32_t hidden = config_.hidden_size, width = table_width(config_);
  WeightList list(names.other_prefix);
  list.add_table("embedding", "embeddings.word_embeddings.weight", config_.vocabulary_size, width);
  list.add_table("positions", "embeddings.position_embeddings.weight", num_position_rows(config_), width);
  if (encoder.num_types > 0)
    list.add_table("types", "embeddings.token_type_embeddings.weight", encoder.num_types, width);
  add_norm(list, "embedding_norm", "embeddings.LayerNorm", width);
  if (encoder.family == EncoderFamily::kAlbert)
    list.add_projection("embedding_projection", {"encoder.embedding_hidden_mapping_in"}, hidden, width, true);
  for (std::uint32_t layer = 0; layer < num_weight_layers(config_); ++layer)
    add_layer(list, layer_prefix(layer), encoder_layer_names(encoder, layer), config_);
  if (!encoder.classifier) return std::move(list).take();
  list.add_projection("head", {names.head_dense}, hidden, hidden, true);
  list.add_projection("classifier", {names.classifier}, vector_size(), hidden, true);
  return std::move(list).take();
}

std::vector<std::string> BertNetwork::layer_prefixes() const {
  const EncoderNames names = encoder_names(config_.encoder->family);
  return {names.layers, names.other_prefix + names.layers};
}

Program BertNetwork::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  return BertProgram(config_, shape, compute_type).write();
}

}  // namespace troupe
