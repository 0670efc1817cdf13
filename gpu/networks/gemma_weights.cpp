// SPDX-License-Identifier: Apache-2.0
// The names that Gemma's weights have in files.
#include <string>
#include <utility>

#include "gpu/networks/gemma.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {

std::vector<WeightSpec> GemmaNetwork::weights() const {
  const std::uint32_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  const float added = config_.gemma->lacks_one ? 1.0F : 0.0F;
  const std::string embedding = "model.embed_tokens.weight";
  WeightList list;
  list.add_table("embedding", embedding, config_.vocabulary_size, hidden);
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".",
                      attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    const auto norm = [&](const char* name, const std::string& source, std::uint32_t width) {
      list.add_vector(prefix + name, {source + ".weight"}, width, added);
    };
    norm("input_norm", prefix + "input_layernorm", hidden);
    list.add_projection(prefix + "qkv", {attention + "q_proj", attention + "k_proj", attention + "v_proj"},
                        config_.qkv_width(), hidden, config_.attention_bias);
    if (config_.head_norms) norm("query_norm", attention + "q_norm", config_.head_dim);
    if (config_.head_norms) norm("key_norm", attention + "k_norm", config_.head_dim);
    list.add_projection(prefix + "o", {attention + "o_proj"}, hidden, config_.query_width(),
                        config_.attention_bias);
    norm("post_attention_norm", prefix + "post_attention_layernorm", hidden);
    norm("pre_feed_forward_norm", prefix + "pre_feedforward_layernorm", hidden);
    list.add_projection(prefix + "gate_up", {mlp + "gate_proj", mlp + "up_proj"}, 2 * inner, hidden, false);
    list.add_projection(prefix + "down", {mlp + "down_proj"}, hidden, inner, false);
    norm("post_feed_forward_norm", prefix + "post_feedforward_layernorm", hidden);
  }
  list.add_vector("norm", {"model.norm.weight"}, hidden, added);
  list.add_matrix("lm_head", {config_.tied_embeddings ? embedding : "lm_head.weight"},
                  config_.vocabulary_size, hidden);
  return std::move(list).take();
}

}  // namespace troupe
