// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/gpt_config.hpp"

#include <string>

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
  config.attention_bias = config.mlp_bias = true;
}

void read_gpt_neox(const ConfigFields& fields, ModelConfig& config) {
  config.gpt = {.activation = fields.activation("hidden_act", "gelu"),
                .is_parallel = fields.flag("use_parallel_residual", true)};
  config.norm_epsilon = fields.number("layer_norm_eps", 0.0F, 1.0F).value_or(1e-5F);
  config.attention_bias = fields.flag("attention_bias", true);
  config.mlp_bias = true;
}

void read_opt(const ConfigFields& fields, ModelConfig& config) {
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
}

void read_gpt_j(const ConfigFields& fields, ModelConfig& config) {
  config.gpt = {.activation = fields.activation("activation_function", "gelu_new"),
                .is_parallel = true,
                .shares_norm = true,
                .has_logit_bias = true};
  config.norm_epsilon = fields.number("layer_norm_epsilon", 0.0F, 1.0F).value_or(1e-5F);
  config.attention_bias = false;
  config.mlp_bias = true;
  // Their lists are as long as another rotary_dim says.
  for (const char* name : {"rope_scaling", "rope_parameters", "partial_rotary_factor"})
    if (fields.has(name)) fields.refuse(std::string(name) + " of GPT-J is not supported");
  config.rotary_dim = fields.count("rotary_dim", kMaxWidth).value_or(64);
  if (config.rotary_dim % 2 != 0 || config.rotary_dim > config.head_dim) {
    fields.refuse("rotary_dim " + std::to_string(config.rotary_dim) +
                  " is not supported (an even number up to " + std::to_string(config.head_dim) +
                  ", a head's elements, is)");
  }
}

}  // namespace

void read_gpt(const ConfigFields& fields, Family family, ModelConfig& config) {
  if (config.num_kv_heads != config.num_heads)
    fields.refuse("num_key_value_heads other than num_attention_heads is not supported");
  switch (family) {
    case Family::kGpt2: return read_gpt2(fields, config);
    case Family::kOpt: return read_opt(fields, config);
    case Family::kGptJ: return read_gpt_j(fields, config);
    default: return read_gpt_neox(fields, config);
  }
}

}  // namespace troupe
