// SPDX-License-Identifier: Apache-2.0
// GPT-2: a table of positions, nothing is rotated, matrices transposed in files.
#include "gpu/networks/gpt.hpp"

#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"

namespace troupe {
namespace {

// It has names of its own, beside which transformers takes those of others.
SizeNames size_names(const ConfigFields& fields) {
  if (fields.has("hidden_size")) return {};
  return {"n_embd", "n_inner", "n_layer", "n_head", "n_positions"};
}

ModelConfig read_gpt2(const std::string& architecture, const ConfigFields& fields,
                      const std::filesystem::path&) {
  ModelConfig config = read_decoder_config(architecture, fields,
                                           {.names = size_names(fields),
                                            .widens_by_four = true,
                                            .context_length = 1024,
                                            .ties_embeddings = true,
                                            .is_gated = false,
                                            .groups_heads = false,
                                            .quantized = QuantizedMatrices::kNone});
  for (const char* name : {"add_cross_attention", "is_encoder_decoder"}) {
    if (fields.flag(name, false)) fields.refuse(std::string(name) + " is not supported");
  }
  if (!fields.flag("scale_attn_weights", true))
    fields.refuse("scores that are not scaled (scale_attn_weights) are not supported");
  config.gpt = {.activation = fields.activation("activation_function", "gelu_new"),
                .has_position_table = true,
                .divides_by_layer = fields.flag("scale_attn_by_inverse_layer_idx", false)};
  config.norm_epsilon = fields.number("layer_norm_epsilon", 0.0F, 1.0F).value_or(1e-5F);
  config.attention_bias = config.mlp_bias = true;
  return config;
}

std::unique_ptr<Network> make_gpt2(ModelConfig config) {
  return std::make_unique<GptNetwork>(std::move(config), GptNames{.other_prefix = "transformer.",
                                                                  .embedding = "wte",
                                                                  .positions = "wpe",
                                                                  .layers = "h.",
                                                                  .attention_norm = "ln_1",
                                                                  .qkv = {"attn.c_attn"},
                                                                  .o = "attn.c_proj",
                                                                  .feed_forward_norm = "ln_2",
                                                                  .up = "mlp.c_fc",
                                                                  .down = "mlp.c_proj",
                                                                  .norm = "ln_f",
                                                                  .lm_head = "lm_head",
                                                                  .order = FileOrder::kTransposed});
}

constexpr Family kGpt2Families[] = {{"GPT2LMHeadModel", "gpt2", read_gpt2, make_gpt2}};

}  // namespace

extern const std::span<const Family> kGpt2Family = kGpt2Families;

}  // namespace troupe
