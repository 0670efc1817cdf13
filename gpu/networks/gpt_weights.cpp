// SPDX-License-Identifier: Apache-2.0
// The names that weights of GPT-2 and its relatives have in files, and the order of their elements there.
#include <string>
#include <utility>
#include <vector>

#include "gpu/networks/gpt.hpp"
#include "gpu/networks/weight_list.hpp"

namespace troupe {
namespace {

void set_order(const ModelConfig& config, const GptNames& names, WeightSpec& weight) {
  const bool is_qkv = weight.name.ends_with(".qkv") || weight.name.ends_with(".qkv_bias");
  if (weight.is_matrix && weight.name != "lm_head") weight.order = names.order;
  if (!is_qkv) return;
  weight.head_dim = config.head_dim;
  weight.paired_rows = names.paired_rows;
  if (names.qkv_order != FileOrder::kAsRead) weight.order = names.qkv_order;
}

std::vector<std::string> modules_of(const std::string& prefix, const std::vector<std::string>& names) {
  std::vector<std::string> modules;
  for (const std::string& name : names) modules.push_back(prefix + name);
  return modules;
}

}  // namespace

std::vector<WeightSpec> GptNetwork::weights() const {
  const GptConfig& gpt = *config_.gpt;
  const std::uint32_t hidden = config_.hidden_size, inner = config_.intermediate_size;
  WeightList list(names_.other_prefix);
  const auto add_norm = [&](const std::string& name, const std::string& module) {
    list.add_vector(name, {module + ".weight"}, hidden);
    list.add_vector(name + "_bias", {module + ".bias"}, hidden);
  };
  list.add_table("embedding", names_.embedding + ".weight", config_.vocabulary_size, hidden);
  if (gpt.has_position_table)
    list.add_table("positions", names_.positions + ".weight", gpt.first_position + config_.context_length,
                   hidden);
  for (std::uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::string prefix = "layer." + std::to_string(layer) + ".";
    const std::string in_files = names_.layers + std::to_string(layer) + ".";
    add_norm(prefix + "attention_norm", in_files + names_.attention_norm);
    list.add_projection(prefix + "qkv", modules_of(in_files, names_.qkv), config_.qkv_width(), hidden,
                        config_.attention_bias);
    list.add_projection(prefix + "o", {in_files + names_.o}, hidden, config_.query_width(),
                        config_.attention_bias);
    if (!gpt.shares_norm) add_norm(prefix + "feed_forward_norm", in_files + names_.feed_forward_norm);
    list.add_projection(prefix + "up", {in_files + names_.up}, inner, hidden, config_.mlp_bias);
    list.add_projection(prefix + "down", {in_files + names_.down}, hidden, inner, config_.mlp_bias);
  }
  add_norm("norm", names_.norm);
  list.add_matrix("lm_head", {(config_.tied_embeddings ? names_.embedding : names_.lm_head) + ".weight"},
                  config_.vocabulary_size, hidden);
  if (gpt.has_logit_bias)
    list.add_vector("lm_head_bias", {names_.lm_head + ".bias"}, config_.vocabulary_size);
  std::vector<WeightSpec> weights = std::move(list).take();
  for (WeightSpec& weight : weights) set_order(config_, names_, weight);
  return weights;
}

std::vector<std::string> GptNetwork::layer_prefixes() const {
  return {names_.layers, names_.other_prefix + names_.layers};
}

}  // namespace troupe
