// SPDX-License-Identifier: Apache-2.0
// The names that the weights of LFM2 have in files.
#include <string>
#include <utility>
#include <vector>

#include "gpu/networks/lfm2.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {

std::vector<WeightSpec> Lfm2Network::weights() const {
  const std::uint32_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  const std::string embedding = "model.embed_tokens.weight";
  WeightList list;
  list.add_table("embedding", embedding, config_.vocabulary_size, hidden);
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".",
                      attention = prefix + "self_attn.", mlp = prefix + "feed_forward.";
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
