// SPDX-License-Identifier: Apache-2.0
// Qwen2, which has biases of queries, keys and values; Qwen3, which has norms of heads; and its mixture.
#include "gpu/model/experts_config.hpp"
#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"
#include "gpu/networks/llama.hpp"

namespace troupe {
namespace {

using nlohmann::json;

// The layers from "max_window_layers" on.
std::vector<bool> last_layers(const ConfigFields& fields, const ModelConfig& config) {
  const auto first = fields.count("max_window_layers", kMaxLayers).value_or(28);
  std::vector<bool> layers;
  for (std::uint32_t layer = 0; layer < config.num_layers; ++layer) layers.push_back(layer >= first);
  return layers;
}

ModelConfig read_dense(const std::string& architecture, const ConfigFields& fields) {
  ModelConfig config = read_decoder_config(architecture, fields, {});
  if (fields.flag("use_sliding_window", false))
    read_sliding_window(fields, {.layers = [&] { return last_layers(fields, config); }}, config);
  return config;
}

// Its configuration does not name the biases that it always has.
ModelConfig read_qwen2(const std::string& architecture, const ConfigFields& fields,
                       const std::filesystem::path&) {
  ModelConfig config = read_dense(architecture, fields);
  config.attention_bias = config.qkv_bias_only = true;
  return config;
}

ModelConfig read_qwen3(const std::string& architecture, const ConfigFields& fields,
                       const std::filesystem::path&) {
  ModelConfig config = read_dense(architecture, fields);
  config.head_norms = true;
  return config;
}

// Layers that "mlp_only_layers" lists have no experts, nor those that a step leaves out.
std::vector<bool> read_mixed_layers(const ConfigFields& fields, const ModelConfig& config) {
  const auto step = fields.count("decoder_sparse_step", kMaxLayers).value_or(1);
  std::vector<bool> is_mixed;
  for (std::uint32_t layer = 0; layer < config.num_layers; ++layer)
    is_mixed.push_back((layer + 1) % step == 0);
  const json* dense = fields.find("mlp_only_layers");
  if (dense == nullptr) return is_mixed;
  if (!dense->is_array()) fields.refuse("mlp_only_layers is not a list");
  for (const json& layer : *dense) {
    if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() >= config.num_layers) {
      fields.refuse("mlp_only_layers has " + ConfigFields::shown(layer) +
                    ", expected a layer below num_hidden_layers " + std::to_string(config.num_layers));
    }
    is_mixed[layer.get<std::uint32_t>()] = false;
  }
  return is_mixed;
}

ModelConfig read_qwen3_moe(const std::string& architecture, const ConfigFields& fields,
                           const std::filesystem::path&) {
  ModelConfig config = read_decoder_config(architecture, fields, {});
  if (fields.flag("use_sliding_window", false)) read_sliding_window(fields, {}, config);
  config.head_norms = true;
  // Newer files have Mixtral's name for the count.
  const char* count = fields.has("num_local_experts") ? "num_local_experts" : "num_experts";
  config.experts = read_experts(fields, {count, "moe_intermediate_size"}, config);
  config.experts->normalizes = fields.flag("norm_topk_prob", false);
  config.experts->is_mixed = read_mixed_layers(fields, config);
  return config;
}

constexpr GgufFamily kQwen2Gguf = {.name = "qwen2"}, kQwen3Gguf = {.name = "qwen3"},
                     kQwen3MoeGguf = {.name = "qwen3moe"};

constexpr Family kQwenFamilies[] = {
    {"Qwen2ForCausalLM", "qwen2", read_qwen2, make_network_of<LlamaNetwork>, &kQwen2Gguf},
    {"Qwen3ForCausalLM", "qwen3", read_qwen3, make_network_of<LlamaNetwork>, &kQwen3Gguf},
    {"Qwen3MoeForCausalLM", "qwen3_moe", read_qwen3_moe, make_network_of<LlamaNetwork>, &kQwen3MoeGguf, true},
};

}  // namespace

extern const std::span<const Family> kQwenFamily = kQwenFamilies;

}  // namespace troupe
