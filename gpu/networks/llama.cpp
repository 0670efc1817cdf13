// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/llama.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/networks/decoder_shapes.hpp"
#include "gpu/networks/program_writer.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

std::string layer_prefix(std::uint32_t layer) { return "model.layers." + std::to_string(layer) + "."; }

bool holds(const std::vector<bool>& by_layer, std::uint32_t layer) {
  return by_layer.empty() || by_layer.at(layer);
}

class LlamaProgram {
 public:
  LlamaProgram(const ModelConfig& config, ProgramShape shape, DataType compute_type)
      : config_(config), writer_(shape, compute_type) {}

  Program write() && {
    const TensorId x = writer_.temporary("x", DataType::kF32, config_.hidden_size);
    writer_.add(Embed{}, {writer_.weight("embedding", config_.vocabulary_size, config_.hidden_size)}, {x});
    std::optional<TensorId> residual;  // not yet added to x
    for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
      residual = attention(layer, x, residual);
      if (layer == middle_layer(config_)) writer_.hand_out(x);
      residual = feed_forward(layer, x, *residual);
    }
    sample(x, *residual);
    return std::move(writer_).take();
  }

 private:
  TensorId attention(std::uint32_t layer, TensorId x, std::optional<TensorId> residual) {
    const std::string prefix = layer_prefix(layer);
    const TensorId normed = norm(prefix + "input_norm", x, residual);
    const TensorId qkv = writer_.matmul(prefix + "qkv", normed, config_.qkv_width(), config_.attention_bias);
    if (config_.head_norms) {
      writer_.add(HeadNorm{config_.norm_epsilon},
                  {qkv, writer_.weight(prefix + "query_norm", 1, config_.head_dim),
                   writer_.weight(prefix + "key_norm", 1, config_.head_dim)},
                  {});
    }
    writer_.add(RotaryAppendKv{layer, holds(config_.is_rotated, layer)}, {qkv}, {});
    const TensorId attended =
        writer_.temporary(prefix + "attended", writer_.compute_type(), config_.query_width());
    const bool slides = holds(config_.is_sliding, layer);
    std::vector<TensorId> inputs = {qkv};
    if (config_.attention_sinks) inputs.push_back(writer_.weight(prefix + "sinks", 1, config_.num_heads));
    writer_.add(PagedAttention{layer, slides ? config_.sliding_window : 0}, std::move(inputs), {attended});
    return writer_.matmul(prefix + "o", attended, config_.hidden_size, config_.has_output_bias());
  }

  TensorId feed_forward(std::uint32_t layer, TensorId x, TensorId residual) {
    const std::string prefix = layer_prefix(layer);
    const TensorId normed = norm(prefix + "post_attention_norm", x, residual);
    if (is_mixed(config_, layer)) return write_experts(writer_, config_, prefix, normed);
    const TensorId gate_up =
        writer_.matmul(prefix + "gate_up", normed, 2 * config_.intermediate_size, config_.mlp_bias);
    const TensorId h = writer_.temporary(prefix + "h", writer_.compute_type(), config_.intermediate_size);
    writer_.add(GatedActivation{}, {gate_up}, {h});
    return writer_.matmul(prefix + "down", h, config_.hidden_size, config_.mlp_bias);
  }

  TensorId norm(const std::string& weight_name, TensorId x, std::optional<TensorId> residual) {
    const TensorId normed =
        writer_.temporary(weight_name + "ed", writer_.compute_type(), config_.hidden_size);
    std::vector<TensorId> inputs = {x, writer_.weight(weight_name, 1, config_.hidden_size)};
    std::vector<TensorId> outputs = {normed};
    if (residual) {
      inputs.push_back(*residual);
      outputs.push_back(x);
    }
    writer_.add(RmsNorm{config_.norm_epsilon}, std::move(inputs), std::move(outputs));
    return normed;
  }

  void sample(TensorId x, TensorId residual) {
    const TensorId rows =
        writer_.temporary("output_rows", DataType::kF32, config_.hidden_size, RowCount::kOutputRows);
    writer_.add(GatherRows{}, {x, residual}, {rows});
    const TensorId normed = writer_.temporary("output_normed", writer_.compute_type(), config_.hidden_size,
                                              RowCount::kOutputRows);
    writer_.add(RmsNorm{config_.norm_epsilon}, {rows, writer_.weight("norm", 1, config_.hidden_size)},
                {normed});
    writer_.add(Sample{}, {writer_.matmul("lm_head", normed, config_.vocabulary_size, false)}, {});
  }

  const ModelConfig& config_;
  ProgramWriter writer_;
};

using Modules = std::vector<std::string>;

Modules qkv_modules(const ModelConfig& config, const std::string& prefix) {
  if (config.fused_projections) return {prefix + "qkv_proj"};
  return {prefix + "q_proj", prefix + "k_proj", prefix + "v_proj"};
}
Modules gate_up_modules(const ModelConfig& config, const std::string& prefix) {
  if (config.fused_projections) return {prefix + "gate_up_proj"};
  return {prefix + "gate_proj", prefix + "up_proj"};
}

}  // namespace

LlamaNetwork::LlamaNetwork(ModelConfig config, ExpertNames experts)
    : config_(std::move(config)), experts_(experts) {}

ModelShapes LlamaNetwork::shapes() const { return decoder_shapes(config_); }

std::vector<CellType> LlamaNetwork::cells() const { return {{.name = "decoder_step"}}; }

Program LlamaNetwork::build_program(CellId cell, ProgramShape shape, DataType compute_type) const {
  check_program_request(*this, cell, compute_type);
  return LlamaProgram(config_, shape, compute_type).write();
}

std::vector<WeightSpec> LlamaNetwork::weights() const {
  const std::uint32_t hidden = config_.hidden_size;
  const std::string embedding = "model.embed_tokens.weight";
  WeightList list;
  list.add_table("embedding", embedding, config_.vocabulary_size, hidden);
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    list.add_vector(prefix + "input_norm", {prefix + "input_layernorm.weight"}, hidden);
    list.add_projection(prefix + "qkv", qkv_modules(config_, attention), config_.qkv_width(), hidden,
                        config_.attention_bias);
    if (config_.head_norms) {
      list.add_vector(prefix + "query_norm", {attention + "q_norm.weight"}, config_.head_dim);
      list.add_vector(prefix + "key_norm", {attention + "k_norm.weight"}, config_.head_dim);
    }
    if (config_.attention_sinks) list.add_vector(prefix + "sinks", {attention + "sinks"}, config_.num_heads);
    list.add_projection(prefix + "o", {attention + "o_proj"}, hidden, config_.query_width(),
                        config_.has_output_bias());
    list.add_vector(prefix + "post_attention_norm", {prefix + "post_attention_layernorm.weight"}, hidden);
    if (is_mixed(config_, layer)) {
      list_experts(list, config_, experts_, prefix);
      continue;
    }
    list.add_projection(prefix + "gate_up", gate_up_modules(config_, mlp), 2 * config_.intermediate_size,
                        hidden, config_.mlp_bias);
    list.add_projection(prefix + "down", {mlp + "down_proj"}, hidden, config_.intermediate_size,
                        config_.mlp_bias);
  }
  list.add_vector("norm", {"model.norm.weight"}, hidden);
  list.add_matrix("lm_head", {config_.tied_embeddings ? embedding : "lm_head.weight"},
                  config_.vocabulary_size, hidden);
  return std::move(list).take();
}

}  // namespace troupe
