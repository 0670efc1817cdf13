// SPDX-License-Identifier: Apache-2.0
// Phi-1, 1.5 and 2: attention and feed-forward read one norm, part of a head is rotated, biases everywhere.
#include "gpu/networks/gpt.hpp"

#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"

namespace troupe {
namespace {

ModelConfig read_phi(const std::string& architecture, const ConfigFields& fields,
                     const std::filesystem::path&) {
  ModelConfig config =
      read_decoder_config(architecture, fields,
                          {.rope = {.part = 0.5F}, .is_gated = false, .quantized = QuantizedMatrices::kNone});
  if (fields.flag("qk_layernorm", false))
    fields.refuse("norms of queries and keys (qk_layernorm) are not supported");
  config.gpt = {.activation = fields.activation("hidden_act", "gelu_new"),
                .is_parallel = true,
                .shares_norm = true,
                .has_logit_bias = true};
  config.norm_epsilon = fields.number("layer_norm_eps", 0.0F, 1.0F).value_or(1e-5F);
  config.attention_bias = config.mlp_bias = true;
  return config;
}

std::unique_ptr<Network> make_phi(ModelConfig config) {
  return std::make_unique<GptNetwork>(
      std::move(config), GptNames{.embedding = "model.embed_tokens",
                                  .layers = "model.layers.",
                                  .attention_norm = "input_layernorm",
                                  .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                                  .o = "self_attn.dense",
                                  .up = "mlp.fc1",
                                  .down = "mlp.fc2",
                                  .norm = "model.final_layernorm",
                                  .lm_head = "lm_head"});
}

constexpr Family kPhiFamilies[] = {{"PhiForCausalLM", "phi", read_phi, make_phi}};

}  // namespace

extern const std::span<const Family> kPhiFamily = kPhiFamilies;

}  // namespace troupe
