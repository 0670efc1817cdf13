// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX (Pythia): part of a head is rotated, attention and feed-forward read the same x.
#include "gpu/networks/gpt.hpp"

#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"

namespace troupe {
namespace {

ModelConfig read_gpt_neox(const std::string& architecture, const ConfigFields& fields,
                          const std::filesystem::path&) {
  ModelConfig config = read_decoder_config(architecture, fields,
                                           {.rope = {.part = 0.25F},
                                            .is_gated = false,
                                            .groups_heads = false,
                                            .quantized = QuantizedMatrices::kNone});
  config.gpt = {.activation = fields.activation("hidden_act", "gelu"),
                .is_parallel = fields.flag("use_parallel_residual", true)};
  config.norm_epsilon = fields.number("layer_norm_eps", 0.0F, 1.0F).value_or(1e-5F);
  config.attention_bias = fields.flag("attention_bias", true);
  config.mlp_bias = true;
  return config;
}

std::unique_ptr<Network> make_gpt_neox(ModelConfig config) {
  return std::make_unique<GptNetwork>(std::move(config),
                                      GptNames{.embedding = "gpt_neox.embed_in",
                                               .layers = "gpt_neox.layers.",
                                               .attention_norm = "input_layernorm",
                                               .qkv = {"attention.query_key_value"},
                                               .o = "attention.dense",
                                               .feed_forward_norm = "post_attention_layernorm",
                                               .up = "mlp.dense_h_to_4h",
                                               .down = "mlp.dense_4h_to_h",
                                               .norm = "gpt_neox.final_layer_norm",
                                               .lm_head = "embed_out",
                                               .qkv_order = FileOrder::kHeadByHead});
}

constexpr Family kGptNeoXFamilies[] = {{"GPTNeoXForCausalLM", "gpt_neox", read_gpt_neox, make_gpt_neox}};

}  // namespace

extern const std::span<const Family> kGptNeoXFamily = kGptNeoXFamilies;

}  // namespace troupe
