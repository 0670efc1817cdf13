// SPDX-License-Identifier: Apache-2.0
// OPT: a table of positions whose first two rows are unused, ReLU. Norms behind blocks are refused.
#include "gpu/networks/gpt.hpp"

#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"

namespace troupe {
namespace {

ModelConfig read_opt(const std::string& architecture, const ConfigFields& fields,
                     const std::filesystem::path&) {
  ModelConfig config = read_decoder_config(architecture, fields,
                                           {.names = {.intermediate = "ffn_dim"},
                                            .ties_embeddings = true,
                                            .is_gated = false,
                                            .groups_heads = false,
                                            .quantized = QuantizedMatrices::kNone});
  if (!fields.flag("do_layer_norm_before", true) || fields.flag("_remove_final_layer_norm", false))
    fields.refuse("norms behind blocks (do_layer_norm_before, _remove_final_layer_norm) are not supported");
  if (fields.count("word_embed_proj_dim", kMaxWidth).value_or(config.hidden_size) != config.hidden_size)
    fields.refuse("word_embed_proj_dim other than hidden_size is not supported");
  if (!fields.flag("layer_norm_elementwise_affine", true))
    fields.refuse("norms without weights (layer_norm_elementwise_affine) are not supported");
  config.gpt = {.activation = fields.activation("activation_function", "relu"),
                .has_position_table = true,
                .first_position = 2};
  config.norm_epsilon = 1e-5F;
  config.attention_bias = config.mlp_bias = fields.flag("enable_bias", true);
  return config;
}

std::unique_ptr<Network> make_opt(ModelConfig config) {
  return std::make_unique<GptNetwork>(
      std::move(config), GptNames{.other_prefix = "model.",
                                  .embedding = "decoder.embed_tokens",
                                  .positions = "decoder.embed_positions",
                                  .layers = "decoder.layers.",
                                  .attention_norm = "self_attn_layer_norm",
                                  .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                                  .o = "self_attn.out_proj",
                                  .feed_forward_norm = "final_layer_norm",
                                  .up = "fc1",
                                  .down = "fc2",
                                  .norm = "decoder.final_layer_norm",
                                  .lm_head = "lm_head"});
}

constexpr Family kOptFamilies[] = {{"OPTForCausalLM", "opt", read_opt, make_opt}};

}  // namespace

extern const std::span<const Family> kOptFamily = kOptFamilies;

}  // namespace troupe
