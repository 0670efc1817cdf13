// SPDX-License-Identifier: Apache-2.0
// The names that weights of GPT-2 and its relatives have in files, and the order of their elements there.
#include <string>
#include <utility>
#include <vector>

#include "gpu/model/families.hpp"
#include "gpu/networks/gpt.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

// Modules in transformers; those of a layer stand behind its prefix.
struct GptNames {
  std::string other_prefix;  // as in WeightSpec
  std::string embedding, positions, layers, attention_norm;
  std::vector<std::string> qkv;
  std::string o, feed_forward_norm, up, down, norm, lm_head;
};

const GptNames kGpt2Names = {"transformer.", "wte",  "wpe",      "h.",         "ln_1", {"attn.c_attn"},
                             "attn.c_proj",  "ln_2", "mlp.c_fc", "mlp.c_proj", "ln_f", "lm_head"};
const GptNames kGptJNames = {
    "transformer.",  "wte", "",          "h.",         "ln_1", {"attn.q_proj", "attn.k_proj", "attn.v_proj"},
    "attn.out_proj", "",    "mlp.fc_in", "mlp.fc_out", "ln_f", "lm_head"};
const GptNames kGptNeoXNames = {
    "transformer.",      "gpt_neox.embed_in",         "",
    "gpt_neox.layers.",  "input_layernorm",           {"attention.query_key_value"},
    "attention.dense",   "post_attention_layernorm",  "mlp.dense_h_to_4h",
    "mlp.dense_4h_to_h", "gpt_neox.final_layer_norm", "embed_out"};
const GptNames kOptNames = {"model.",
                            "decoder.embed_tokens",
                            "decoder.embed_positions",
                            "decoder.layers.",
                            "self_attn_layer_norm",
                            {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                            "self_attn.out_proj",
                            "final_layer_norm",
                            "fc1",
                            "fc2",
                            "decoder.final_layer_norm",
                            "lm_head"};

Family family_of(const ModelConfig& config) { return find_family(config.architecture)->family; }

const GptNames& names_of(const ModelConfig& config) {
  switch (family_of(config)) {
    case Family::kGpt2: return kGpt2Names;
    case Family::kGptJ: return kGptJNames;
    case Family::kOpt: return kOptNames;
    default: return kGptNeoXNames;
  }
}

void set_order(const ModelConfig& config, WeightSpec& weight) {
  const Family family = family_of(config);
  const bool is_qkv = weight.name.ends_with(".qkv") || weight.name.ends_with(".qkv_bias");
  if (is_qkv) weight.head_dim = config.head_dim;
  if (is_qkv && family == Family::kGptNeoX) weight.order = FileOrder::kHeadByHead;
  if (is_qkv && family == Family::kGptJ) weight.paired_rows = config.rotary_dim;
  if (family == Family::kGpt2 && weight.is_matrix && weight.name != "lm_head")
    weight.order = FileOrder::kTransposed;
}

std::vector<std::string> modules_of(const std::string& prefix, const std::vector<std::string>& names) {
  std::vector<std::string> modules;
  for (const std::string& name : names) modules.push_back(prefix + name);
  return modules;
}

}  // namespace

std::vector<WeightSpec> GptNetwork::weights() const {
  const GptNames& names = names_of(config_);
  const GptConfig& gpt = *config_.gpt;
  const std::uint32_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  WeightList list(names.other_prefix);
  const auto add_norm = [&](const std::string& name, const std::string& module) {
    list.add_vector(name, {module + ".weight"}, hidden);
    list.add_vector(name + "_bias", {module + ".bias"}, hidden);
  };
  list.add_table("embedding", names.embedding + ".weight", config_.vocabulary_size, hidden);
  if (gpt.has_position_table)
    list.add_table("positions", names.positions + ".weight", gpt.first_position + config_.context_length,
                   hidden);
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = "layer." + std::to_string(layer) + ".";
    const std::string in_files = names.layers + std::to_string(layer) + ".";
    add_norm(prefix + "attention_norm", in_files + names.attention_norm);
    list.add_projection(prefix + "qkv", modules_of(in_files, names.qkv), config_.qkv_width(), hidden,
                        config_.attention_bias);
    list.add_projection(prefix + "o", {in_files + names.o}, hidden, config_.query_width(),
                        config_.attention_bias);
    if (!gpt.shares_norm) add_norm(prefix + "feed_forward_norm", in_files + names.feed_forward_norm);
    list.add_projection(prefix + "up", {in_files + names.up}, inner, hidden, config_.mlp_bias);
    list.add_projection(prefix + "down", {in_files + names.down}, hidden, inner, config_.mlp_bias);
  }
  add_norm("norm", names.norm);
  list.add_matrix("lm_head", {(config_.tied_embeddings ? names.embedding : names.lm_head) + ".weight"},
                  config_.vocabulary_size, hidden);
  if (gpt.has_logit_bias) list.add_vector("lm_head_bias", {names.lm_head + ".bias"}, config_.vocabulary_size);
  std::vector<WeightSpec> weights = std::move(list).take();
  for (WeightSpec& weight : weights) set_order(config_, weight);
  return weights;
}

std::vector<std::string> GptNetwork::layer_prefixes() const {
  const GptNames& names = names_of(config_);
  return {names.layers, names.other_prefix + names.layers};
}

}  // namespace troupe
