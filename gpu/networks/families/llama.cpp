// SPDX-License-Identifier: Apache-2.0
// Llama, Mistral and Mixtral, which are one architecture in GGUF files.
#include "gpu/networks/llama.hpp"
#include "gpu/model/experts_config.hpp"
#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/family.hpp"

namespace troupe {
namespace {

ModelConfig read_llama(const std::string& architecture, const ConfigFields& fields,
                       const std::filesystem::path&) {
  return read_decoder_config(architecture, fields, {});
}

ModelConfig read_mistral(const std::string& architecture, const ConfigFields& fields,
                         const std::filesystem::path&) {
  ModelConfig config = read_decoder_config(architecture, fields, {});
  read_sliding_window(fields, {}, config);
  return config;
}

ModelConfig read_mixtral(const std::string& architecture, const ConfigFields& fields,
                         const std::filesystem::path&) {
  ModelConfig config =
      read_decoder_config(architecture, fields, {.rope = {.theta = 1e6F}, .norm_epsilon = 1e-5F});
  read_sliding_window(fields, {}, config);
  config.experts = read_experts(fields, {}, config);
  return config;
}

std::unique_ptr<Network> make_mixtral(ModelConfig config) {
  return std::make_unique<LlamaNetwork>(std::move(config),
                                        ExpertNames{"block_sparse_moe.", "gate", "w1", "w3", "w2"});
}

constexpr GgufModule kLlamaModules[] = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                                        {"ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
                                        {"ffn_up_exps", "block_sparse_moe.experts.*.w3"},
                                        {"ffn_down_exps", "block_sparse_moe.experts.*.w2"}};
constexpr GgufFamily kLlamaGguf = {.name = "llama", .modules = kLlamaModules, .has_pairs = true};

constexpr Family kLlamaFamilies[] = {
    {"LlamaForCausalLM", "llama", read_llama, make_network_of<LlamaNetwork>, &kLlamaGguf},
    {"MistralForCausalLM", "mistral", read_mistral, make_network_of<LlamaNetwork>, &kLlamaGguf},
    {"MixtralForCausalLM", "mixtral", read_mixtral, make_mixtral, &kLlamaGguf, true},
};

}  // namespace

extern const std::span<const Family> kLlamaFamily = kLlamaFamilies;

}  // namespace troupe
