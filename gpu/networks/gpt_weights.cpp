// SPDX-License-Identifier: Apache-2.0
// The names that weights of GPT-2 and GPT-NeoX have in files, and the order of their elements there.
#include <string>
#include <utility>

#include "gpu/networks/gpt.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

// Modules in transformers; those of a layer stand behind its prefix.
struct GptNames {
  std::string embedding, positions, layers, attention_norm, qkv, o, feed_forward_norm, up, down, norm,
      lm_head;
};

const GptNames kGpt2Names = {"wte",  "wpe",      "h.",         "ln_1", "attn.c_attn", "attn.c_proj",
                             "ln_2", "mlp.c_fc", "mlp.c_proj", "ln_f", "lm_head"};
const GptNames kGptNeoXNames = {"gpt_neox.embed_in",
                                "",
                                "gpt_neox.layers.",
                                "input_layernorm",
                                "attention.query_key_value",
                                "attention.dense",
                                "post_attention_layernorm",
                                "mlp.dense_h_to_4h",
                                "mlp.dense_4h_to_h",
                                "gpt_neox.final_layer_norm",
                                "embed_out"};

const GptNames& names_of(const ModelConfig& config) {
  return config.gpt->has_position_table ? kGpt2Names : kGptNeoXNames;
}

void set_order(const ModelConfig& config, WeightSpec& weight) {
  const bool is_of_gpt2 = config.gpt->has_position_table;
  if (is_of_gpt2 && weight.is_matrix && weight.name != "lm_head") weight.order = FileOrder::kTransposed;
  if (!is_of_gpt2 && (weight.name.ends_with(".qkv") || weight.name.ends_with(".qkv_bias"))) {
    weight.order = FileOrder::kHeadByHead;
    weight.head_dim = config.head_dim;
  }
}

}  // namespace

std::vector<WeightSpec> GptNetwork::weights() const {
  const GptNames& names = names_of(config_);
  const std::uint32_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  WeightList list("transformer.");
  const auto add_norm = [&](const std::string& name, const std::string& module) {
    list.add_vector(name, {module + ".weight"}, hidden);
    list.add_vector(name + "_bias", {module + ".bias"}, hidden);
  };
  list.add_table("embedding", names.embedding + ".weight", config_.vocabulary_size, hidden);
  if (config_.gpt->has_position_table)
    list.add_table("positions", names.positions + ".weight", config_.context_length, hidden);
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = "layer." + std::to_string(layer) + ".";
    const std::string in_files = names.layers + std::to_string(layer) + ".";
    add_norm(prefix + "attention_norm", in_files + names.attention_norm);
    list.add_projection(prefix + "qkv", {in_files + names.qkv}, config_.qkv_width(), hidden,
                        config_.attention_bias);
    list.add_projection(prefix + "o", {in_files + names.o}, hidden, config_.query_width(),
                        config_.attention_bias);
    add_norm(prefix + "feed_forward_norm", in_files + names.feed_forward_norm);
    list.add_projection(prefix + "up", {in_files + names.up}, inner, hidden, true);
    list.add_projection(prefix + "down", {in_files + names.down}, hidden, inner, true);
  }
  add_norm("norm", names.norm);
  list.add_matrix("lm_head", {(config_.tied_embeddings ? names.embedding : names.lm_head) + ".weight"},
                  config_.vocabulary_size, hidden);
  std::vector<WeightSpec> weights = std::move(list).take();
  for (WeightSpec& weight : weights) set_order(config_, weight);
  return weights;
}

std::vector<std::string> GptNetwork::layer_prefixes() const {
  const std::string& layers = names_of(config_).layers;
  return {layers, "transformer." + layers};
}

}  // namespace troupe
