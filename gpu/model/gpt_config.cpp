// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gpt_config.hpp"

namespace troupe {
namespace {

void read_gpt2(const ConfigFields& fields, ModelConfig& config) {
  for (const char* name : {"add_cross_attention", "is_encoder_decoder"}) {
    if (fields.flag(name, false)) fields.refuse(std::string(name) + " is not supported");
  }
  if (!fields.flag("scale_attn_weights", true))
    fields.refuse("scores that are not scaled (scale_attn_weights) are not supported");
  config.gpt = {.activation = fields.activation("activation_function", "gelu_new"),
                .has_position_table = true,
                .divides_by_layer = fields.flag("scale_attn_by_inverse_layer_idx", false)};
  config.norm_epsilon = fields.number("layer_norm_epsilon", 0.0F, 1.0F).value_or(1e-5F);
  config.attention_bias = true;
}

}  // namespace

void read_gpt(const ConfigFields& fields, Family family, ModelConfig& config) {
  if (config.num_kv_heads != config.num_heads)
    fields.refuse("num_key_value_heads other than num_attention_heads is not supported");
  if (family == Family::kGpt2) return read_gpt2(fields, config);
  config.gpt = {.activation = fields.activation("hidden_act", "gelu"),
                .is_parallel = fields.flag("use_parallel_residual", true)};
  config.norm_epsilon = fields.number("layer_norm_eps", 0.0F, 1.0F).value_or(1e-5F);
  config.attention_bias = fields.flag("attention_bias", true);
}

}  // namespace troupe
