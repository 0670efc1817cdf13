// SPDX-License-Identifier: Apache-2.0
// LFM2: short convolutions in most layers, attention with norms of heads in the others.
#include "gpu/networks/lfm2.hpp"

#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"

namespace troupe {
namespace {

using nlohmann::json;

// By "layer_types", else the numbers in "full_attn_idxs"; all layers have attention where there is neither.
std::vector<bool> read_convolutions(const ConfigFields& fields, const ModelConfig& config) {
  std::vector<bool> is_convolution(config.num_layers, false);
  if (const json* types = fields.find("layer_types")) {
    if (!types->is_array() || types->size() != config.num_layers)
      fields.refuse("layer_types is not a list of num_hidden_layers entries");
    for (std::size_t layer = 0; layer < types->size(); ++layer) {
      const json& type = (*types)[layer];
      const std::string text = type.is_string() ? type.get<std::string>() : "";
      if (text != "conv" && text != "full_attention")
        fields.refuse("layer_types has " + ConfigFields::shown(type) + ", expected conv or full_attention");
      is_convolution[layer] = text == "conv";
    }
  } else if (const json* indexes = fields.find("full_attn_idxs")) {
    if (!indexes->is_array()) fields.refuse("full_attn_idxs is not a list");
    is_convolution.assign(config.num_layers, true);
    for (const json& index : *indexes) {
      if (!index.is_number_unsigned() || index.get<std::uint64_t>() >= config.num_layers)
        fields.refuse("full_attn_idxs has " + ConfigFields::shown(index) + ", expected numbers of layers");
      is_convolution[index.get<std::size_t>()] = false;
    }
  }
  return is_convolution;
}

// As transformers reckons, in f64.
std::uint32_t adjusted(const ConfigFields& fields, std::uint32_t stated) {
  if (!fields.flag("block_auto_adjust_ff_dim", true)) return stated;
  auto size = static_cast<std::uint32_t>(2 * stated / 3);
  const double factor = fields.exact_number("block_ffn_dim_multiplier", 0.0, 64.0).value_or(1.0);
  size = static_cast<std::uint32_t>(factor * size);
  const std::uint32_t multiple = fields.count("block_multiple_of", kMaxWidth).value_or(256);
  return (size + multiple - 1) / multiple * multiple;
}

ModelConfig read_lfm2(const std::string& architecture, const ConfigFields& fields,
                      const std::filesystem::path&) {
  DecoderRules rules = {.rope = {.theta = 1e6F}};
  if (fields.has("block_ff_dim")) rules.names.intermediate = "block_ff_dim";
  ModelConfig config = read_decoder_config(architecture, fields, rules);
  if (fields.flag("conv_bias", false)) fields.refuse("conv_bias is not supported");
  config.lfm2 = {.is_convolution = read_convolutions(fields, config),
                 .num_taps = fields.count("conv_L_cache", 16).value_or(3)};
  config.intermediate_size = adjusted(fields, config.intermediate_size);
  if (config.intermediate_size == 0 || config.intermediate_size > kMaxWidth)
    fields.refuse("block_ff_dim, block_ffn_dim_multiplier and block_multiple_of make " +
                  std::to_string(config.intermediate_size) + " elements");
  config.norm_epsilon = fields.number("norm_eps", 0.0F, 1.0F).value_or(1e-5F);
  config.tied_embeddings = fields.flag("tie_embedding", fields.flag("tie_word_embeddings", true));
  config.head_norms = true;
  return config;
}

// A layer of convolution has no heads of keys and values. The width is that behind its adjustment.
void add_fields(const ArchitectureKeys& keys, json& document) {
  for (const std::uint64_t count : keys.layer_counts("attention.head_count_kv"))
    document["layer_types"].push_back(count == 0 ? "conv" : "full_attention");
  document["conv_L_cache"] = keys.required_count("shortconv.l_cache");
  document["norm_eps"] = document["rms_norm_eps"];
  document["block_auto_adjust_ff_dim"] = false;
}

void add_keys(const ModelConfig& config, const std::string& prefix, GgufKeys& keys) {
  std::vector<std::int64_t> num_kv_heads;
  for (const bool is_convolution : config.lfm2->is_convolution)
    num_kv_heads.push_back(is_convolution ? 0 : config.num_kv_heads);
  keys.add_integers(prefix + "attention.head_count_kv", num_kv_heads);
  keys.add_count(prefix + "shortconv.l_cache", config.lfm2->num_taps);
}

constexpr GgufModule kLfm2Modules[] = {
    {"attn_norm", "operator_norm"},           {"attn_q_norm", "self_attn.q_layernorm"},
    {"attn_k_norm", "self_attn.k_layernorm"}, {"attn_output", "self_attn.out_proj"},
    {"shortconv.conv", "conv.conv"},          {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.out_proj", "conv.out_proj"},  {"ffn_norm", "ffn_norm"},
    {"ffn_gate", "feed_forward.w1"},          {"ffn_up", "feed_forward.w3"},
    {"ffn_down", "feed_forward.w2"}};
constexpr GgufModule kLfm2ModulesOfModel[] = {{"token_embd_norm", "model.embedding_norm"}};  // the last one
constexpr GgufFamily kLfm2Gguf = {.name = "lfm2",
                                  .modules = kLfm2Modules,
                                  .modules_of_model = kLfm2ModulesOfModel,
                                  .counts_heads_by_layer = true,
                                  .add_fields = add_fields,
                                  .add_keys = add_keys};

constexpr Family kLfm2Families[] = {
    {"Lfm2ForCausalLM", "lfm2", read_lfm2, make_network_of<Lfm2Network>, &kLfm2Gguf}};

}  // namespace

extern const std::span<const Family> kLfm2Family = kLfm2Families;

}  // namespace troupe
