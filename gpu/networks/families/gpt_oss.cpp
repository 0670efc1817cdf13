// SPDX-License-Identifier: Apache-2.0
// gpt-oss: sinks of attention, a mixture of experts with biases and a gate of its own, yarn.
#include "gpu/model/experts_config.hpp"
#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"
#include "gpu/networks/llama.hpp"

namespace troupe {
namespace {

using nlohmann::json;

// The constants are the kernels'.
void read_gate(const ConfigFields& fields, ExpertsConfig& experts) {
  if (fields.number("swiglu_alpha", 0.0F, 100.0F).value_or(1.702F) != 1.702F)
    fields.refuse("swiglu_alpha other than 1.702 is not supported");
  if (fields.number("swiglu_limit", 0.0F, 1e6F).value_or(7.0F) != 7.0F)
    fields.refuse("swiglu_limit other than 7 is not supported");
  experts.has_bias = true;
  experts.activation = Activation::kClampedSwish;
  experts.alternates = true;
  experts.is_transposed = fields.find("quantization_config") == nullptr;
}

ModelConfig read_gpt_oss(const std::string& architecture, const ConfigFields& fields,
                         const std::filesystem::path&) {
  ModelConfig config = read_decoder_config(architecture, fields,
                                           {.head_dim = 64,
                                            .rope = {.theta = 150000.0F},
                                            .norm_epsilon = 1e-5F,
                                            .attention_bias = true,
                                            .quantized = QuantizedMatrices::kMxfp4});
  SlidingRules sliding = {.layers = [&] { return all_but_every(2, config.num_layers); }};
  if (!fields.has("sliding_window")) sliding.window = 128;
  read_sliding_window(fields, sliding, config);
  // Without one its scaling is neither none nor that of the published models.
  if (!config.rope_scaling) fields.refuse("rope_scaling of gpt-oss is missing");
  config.attention_sinks = true;
  config.experts = read_experts(fields, {}, config);
  read_gate(fields, *config.experts);
  return config;
}

std::unique_ptr<Network> make_gpt_oss(ModelConfig config) {
  return std::make_unique<LlamaNetwork>(std::move(config), ExpertNames{.router = "router"});
}

json window_of(const ArchitectureKeys& keys) { return keys.required_count("attention.sliding_window"); }

// Not in the format.
void add_fields(const ArchitectureKeys&, json& document) {
  if (document["rope_scaling"].is_object()) document["rope_scaling"]["truncate"] = false;
}

// It needs a window, be it longer than the context.
void add_keys(const ModelConfig& config, const std::string& prefix, GgufKeys& keys) {
  keys.add_count(prefix + "attention.sliding_window",
                 config.sliding_window > 0 ? config.sliding_window : config.context_length);
}

constexpr GgufModule kGptOssModules[] = {{"post_attention_norm", "post_attention_layernorm"},
                                         {"ffn_gate_inp", "mlp.router"},
                                         {"attn_sinks", "self_attn.sinks", false}};
// "<|end|>" ends a message, behind which the answer goes on.
constexpr std::string_view kEndings[] = {"<|return|>", "<|call|>", "<|endoftext|>"};
constexpr GgufFamily kGptOssGguf = {.name = "gpt-oss",
                                    .modules = kGptOssModules,
                                    .endings = kEndings,
                                    .window = window_of,
                                    .add_fields = add_fields,
                                    .add_keys = add_keys};

constexpr Family kGptOssFamilies[] = {
    {"GptOssForCausalLM", "gpt_oss", read_gpt_oss, make_gpt_oss, &kGptOssGguf, true}};

}  // namespace

extern const std::span<const Family> kGptOssFamily = kGptOssFamilies;

}  // namespace troupe
