// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/lfm2.hpp"

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/networks/decoder_shapes.hpp"
#include "gpu/networks/program_writer.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

std::string layer_prefix(std::uint32_t layer) { return "model.layers." + std::to_string(layer) + "."; }

std::uint32_t num_page_layers(const ModelConfig& config, std::uint32_t layer) {
  const std::uint32_t a_page_layer = 2 * config.num_kv_heads * config.head_dim;
  return config.lfm2->is_convolution.at(layer) ? (config.hidden_size + a_page_layer - 1) / a_page_layer : 1;
}

class Lfm2Program {
 public:
  Lfm2Program(const ModelConfig& config, ProgramShape shape, DataType compute_type)
      : config_(config), writer_(shape, compute_type) {}

  Program write() && {
    const std::uint32_t hidden = config_.hidden_size;
    x_ = writer_.temporary("x", DataType::kF32, hidden);
    writer_.add(Embed{}, {writer_.weight("embedding", config_.vocabulary_size, hidden)}, {x_});
    std::uint32_t page_layer = 0;
    for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string prefix = layer_prefix(layer);
      const std::uint32_t num_layers = num_page_layers(config_, layer);
      const TensorId normed = norm(prefix + "operator_norm");
      if (layer == middle_layer(config_)) writer_.hand_out(x_);
      residual_ = config_.lfm2->is_convolution[layer] ? convolution(prefix, page_layer, num_layers, normed)
                                                      : attention(prefix, page_layer, normed);
      residual_ = feed_forward(prefix);
      page_layer += num_layers;
    }
    sample();
    return std::move(writer_).take();
  }

 private:
  TensorId convolution(const std::string& prefix, std::uint32_t page_layer, std::uint32_t num_layers,
                       TensorId normed) {
    const std::uint32_t hidden = config_.hidden_size;
    const TensorId bcx = writer_.matmul(prefix + "conv_in", normed, 3 * hidden, false);
    const TensorId y = writer_.temporary(prefix + "convolved", writer_.compute_type(), hidden);
    const TensorId weight = writer_.weight(prefix + "conv", 1, hidden * config_.lfm2->num_taps);
    writer_.add(ShortConvolution{page_layer, num_layers}, {bcx, weight}, {y});
    return writer_.matmul(prefix + "conv_out", y, hidden, false);
  }

  TensorId attention(const std::string& prefix, std::uint32_t page_layer, TensorId normed) {
    const TensorId qkv = writer_.matmul(prefix + "qkv", normed, config_.qkv_width(), false);
    writer_.add(HeadNorm{config_.norm_epsilon},
                {qkv, writer_.weight(prefix + "query_norm", 1, config_.head_dim),
                 writer_.weight(prefix + "key_norm", 1, config_.head_dim)},
                {});
    writer_.add(RotaryAppendKv{page_layer}, {qkv}, {});
    const TensorId attended =
        writer_.temporary(prefix + "attended", writer_.compute_type(), config_.query_width());
    writer_.add(PagedAttention{page_layer}, {qkv}, {attended});
    return writer_.matmul(prefix + "o", attended, config_.hidden_size, false);
  }

  TensorId feed_forward(const std::string& prefix) {
    const TensorId normed = norm(prefix + "feed_forward_norm");
    const TensorId gate_up = writer_.matmul(prefix + "gate_up", normed, 2 * config_.intermediate_size, false);
    const TensorId h = writer_.temporary(prefix + "h", writer_.compute_type(), config_.intermediate_size);
    writer_.add(GatedActivation{}, {gate_up}, {h});
    return writer_.matmul(prefix + "down", h, config_.hidden_size, false);
  }

  // Of x and what was not yet added to it.
  TensorId norm(const std::string& name) {
    const std::uint32_t hidden = config_.hidden_size;
    std::vector<TensorId> inputs = {x_, writer_.weight(name, 1, hidden)};
    std::vector<TensorId> outputs = {writer_.temporary(name + "ed", writer_.compute_type(), hidden)};
    if (residual_) {
      inputs.push_back(*residual_);
      outputs.push_back(x_);
    }
    const TensorId normed = outputs.front();
    writer_.add(RmsNorm{config_.norm_epsilon}, std::move(inputs), std::move(outputs));
    return normed;
  }

  void sample() {
    const std::uint32_t hidden = config_.hidden_size;
    const TensorId rows = writer_.temporary("output_rows", DataType::kF32, hidden, RowCount::kOutputRows);
    writer_.add(GatherRows{}, {x_, *residual_}, {rows});
    const TensorId normed =
        writer_.temporary("output_normed", writer_.compute_type(), hidden, RowCount::kOutputRows);
    writer_.add(RmsNorm{config_.norm_epsilon}, {rows, writer_.weight("norm", 1, hidden)}, {normed});
    writer_.add(Sample{}, {writer_.matmul("lm_head", normed, config_.vocabulary_size, false)}, {});
  }

  const ModelConfig& config_;
  ProgramWriter writer_;
  TensorId x_ = 0;
  std::optional<TensorId> residual_;
};

}  // namespace

Lfm2Network::Lfm2Network(ModelConfig config) : config_(std::move(config)) {
  if (!config_.lfm2) throw std::runtime_error("LFM2's configuration lacks what only LFM2 has");
}

ModelShapes Lfm2Network::shapes() const {
  ModelShapes shapes = decoder_shapes(config_);
  shapes.num_layers = 0;
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer)
    shapes.num_layers += num_page_layers(config_, layer);
  return shapes;
}

std::vector<CellType> Lfm2Network::cells() const { return {{.name = "decoder_step"}}; }

Program Lfm2Network::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  return Lfm2Program(config_, shape, compute_type).write();
}

std::vector<WeightSpec> Lfm2Network::weights() const {
  const std::uint32_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  const std::string embedding = "model.embed_tokens.weight";
  WeightList list;
  list.add_table("embedding", embedding, config_.vocabulary_size, hidden);
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = layer_prefix(layer), attention = prefix + "self_attn.",
                      mlp = prefix + "feed_forward.";
    list.add_vector(prefix + "operator_norm", {prefix + "operator_norm.weight"}, hidden);
    if (config_.lfm2->is_convolution[layer]) {
      list.add_matrix(prefix + "conv_in", {prefix + "conv.in_proj.weight"}, 3 * hidden, hidden);
      list.add({.name = prefix + "conv",
                .sources = {prefix + "conv.conv.weight"},
                .rows = 1,
                .columns = hidden * config_.lfm2->num_taps,
                .row_width = config_.lfm2->num_taps});
      list.add_matrix(prefix + "conv_out", {prefix + "conv.out_proj.weight"}, hidden, hidden);
    } else {
      list.add_projection(prefix + "qkv", {attention + "q_proj", attention + "k_proj", attention + "v_proj"},
                          config_.qkv_width(), hidden, false);
      list.add_vector(prefix + "query_norm", {attention + "q_layernorm.weight"}, config_.head_dim);
      list.add_vector(prefix + "key_norm", {attention + "k_layernorm.weight"}, config_.head_dim);
      list.add_matrix(prefix + "o", {attention + "out_proj.weight"}, hidden, config_.query_width());
    }
    list.add_vector(prefix + "feed_forward_norm", {prefix + "ffn_norm.weight"}, hidden);
    list.add_projection(prefix + "gate_up", {mlp + "w1", mlp + "w3"}, 2 * inner, hidden, false);
    list.add_matrix(prefix + "down", {mlp + "w2.weight"}, hidden, inner);
  }
  list.add_vector("norm", {"model.embedding_norm.weight"}, hidden);
  list.add_matrix("lm_head", {config_.tied_embeddings ? embedding : "lm_head.weight"},
                  config_.vocabulary_size, hidden);
  return std::move(list).take();
}

}  // namespace troupe
