// SPDX-License-Identifier: Apache-2.0
// The names that the family's weights have in files.
#include "gpu/networks/llama.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

std::string layer_prefix(std::uint32_t layer) { return "model.layers." + std::to_string(layer) + "."; }

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
