// SPDX-License-Identifier: Apache-2.0
// GPT-J: attention and feed-forward read one norm, neighbours are rotated, logits have a bias.
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

ModelConfig read_gpt_j(const std::string& architecture, const ConfigFields& fields,
                       const std::filesystem::path&) {
  ModelConfig config = read_decoder_config(architecture, fields,
                                           {.names = size_names(fields),
                                            .widens_by_four = true,
                                            .is_gated = false,
                                            .groups_heads = false,
                                            .quantized = QuantizedMatrices::kNone});
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
  return config;
}

std::unique_ptr<Network> make_gpt_j(ModelConfig config) {
  const std::uint32_t paired_rows = config.rotary_dim;
  return std::make_unique<GptNetwork>(std::move(config),
                                      GptNames{.other_prefix = "transformer.",
                                               .embedding = "wte",
                                               .layers = "h.",
                                               .attention_norm = "ln_1",
                                               .qkv = {"attn.q_proj", "attn.k_proj", "attn.v_proj"},
                                               .o = "attn.out_proj",
                                               .up = "mlp.fc_in",
                                               .down = "mlp.fc_out",
                                               .norm = "ln_f",
                                               .lm_head = "lm_head",
                                               .paired_rows = paired_rows});
}

constexpr Family kGptJFamilies[] = {{"GPTJForCausalLM", "gptj", read_gpt_j, make_gpt_j}};

}  // namespace

extern const std::span<const Family> kGptJFamily = kGptJFamilies;

}  // namespace troupe
