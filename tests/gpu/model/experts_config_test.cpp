// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/experts_config.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/model/model_config.hpp"
#include "gpu/networks/network.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace experts_config_test {
namespace {

using nlohmann::json;

json good_config(const char* architecture) {
  return {{"architectures", {architecture}},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"moe_intermediate_size", 48},
          {"num_hidden_layers", 6},
          {"num_attention_heads", 4},
          {"head_dim", 16},
          {"vocab_size", 512},
          {"num_experts", 8},
          {"num_experts_per_tok", 2}};
}

json good_mixtral() {
  json config = good_config("MixtralForCausalLM");
  config["num_local_experts"] = 8;
  return config;
}

ModelConfig load(const json& config) {
  const TemporaryDirectory directory;
  directory.write("config.json", config.dump());
  return load_model_config(directory.path());
}

std::string refusal_of(json config, const char* name, const json& value) {
  config[name] = value;
  try {
    load(config);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("experts config: what is left out is what the family has") {
  const ModelConfig mixtral = load(good_mixtral());
  CHECK(mixtral.experts->num_experts == 8);
  CHECK(mixtral.experts->num_chosen == 2);
  CHECK(mixtral.experts->intermediate_size == 96);
  CHECK(mixtral.experts->normalizes);
  CHECK(mixtral.rope_theta == 1e6F);
  CHECK(mixtral.norm_epsilon == 1e-5F);
  CHECK(mixtral.sliding_window == 0);
  const ModelConfig qwen = load(good_config("Qwen3MoeForCausalLM"));
  CHECK(qwen.experts->intermediate_size == 48);
  CHECK_FALSE(qwen.experts->normalizes);
  CHECK(qwen.head_norms);
  CHECK(qwen.experts->is_mixed == std::vector<bool>(6, true));
}

TEST_CASE("experts config: gpt-oss has biases, sinks, windows in every other layer and a gate of its own") {
  json document = good_config("GptOssForCausalLM");
  document.erase("head_dim");
  document["num_local_experts"] = 8;
  CHECK(refusal_of(document, "rope_scaling", nullptr).find("rope_scaling of gpt-oss is missing") !=
        std::string::npos);
  document["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 32.0}, {"truncate", false}};
  const ModelConfig config = load(document);
  CHECK(config.experts->activation == Activation::kClampedSwish);
  CHECK(config.experts->has_bias);
  CHECK(config.experts->normalizes);
  CHECK(config.experts->is_transposed);
  CHECK(config.attention_sinks);
  CHECK(config.has_output_bias());
  CHECK(config.head_dim == 64);
  CHECK(config.sliding_window == 128);
  CHECK(config.is_sliding == std::vector<bool>{true, false, true, false, true, false});
  CHECK(config.rope_theta == 150000.0F);
  CHECK(refusal_of(document, "swiglu_limit", 6.0).find("swiglu_limit other than 7") != std::string::npos);
  CHECK(refusal_of(document, "swiglu_alpha", 1.0).find("swiglu_alpha other than 1.702") != std::string::npos);
  CHECK(refusal_of(document, "quantization_config", {{"quant_method", "fp8"}}).find("quantized weights") !=
        std::string::npos);
  document["quantization_config"] = {{"quant_method", "mxfp4"}};
  CHECK_FALSE(load(document).experts->is_transposed);
}

TEST_CASE("experts config: layers by a step and in a list are dense") {
  json document = good_config("Qwen3MoeForCausalLM");
  document["decoder_sparse_step"] = 2;
  document["mlp_only_layers"] = {3};
  document["norm_topk_prob"] = true;
  const ModelConfig config = load(document);
  CHECK(config.experts->is_mixed == std::vector<bool>{false, true, false, false, false, true});
  CHECK(config.experts->normalizes);
  std::size_t num_routers = 0, num_dense = 0;
  for (const WeightSpec& spec : make_network(config)->weights()) {
    num_routers += spec.kind == MatrixKind::kRouter ? 1 : 0;
    num_dense += spec.name.ends_with(".gate_up") ? 1 : 0;
  }
  CHECK(num_routers == 2);
  CHECK(num_dense == 4);
}

TEST_CASE("experts config: what makes no sense is refused by its name") {
  const json qwen = good_config("Qwen3MoeForCausalLM");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {refusal_of(qwen, "num_experts_per_tok", 9), "num_experts_per_tok 9 is more than the 8 experts"},
      {refusal_of(qwen, "num_experts_per_tok", nullptr), "num_experts_per_tok is missing"},
      {refusal_of(qwen, "num_experts", 5000), "num_experts is 5000, expected an integer from 1 to 4096"},
      {refusal_of(qwen, "moe_intermediate_size", 40),
       "experts of moe_intermediate_size 40 and hidden_size 64 are not supported (multiples of 16 and 32"},
      {refusal_of(good_mixtral(), "hidden_size", 80),
       "experts of intermediate_size 96 and hidden_size 80 are not supported"},
      {refusal_of(qwen, "shared_expert_intermediate_size", 64), "(shared_expert_intermediate_size) are not"},
      {refusal_of(good_mixtral(), "n_shared_experts", 1), "(n_shared_experts) are not supported"},
      {refusal_of(qwen, "routed_scaling_factor", 2.5), "(routed_scaling_factor) is not supported"},
      {refusal_of(qwen, "mlp_only_layers", 3), "mlp_only_layers is not a list"},
      {refusal_of(qwen, "mlp_only_layers", {6}), "mlp_only_layers has 6, expected a layer below"},
      {refusal_of(qwen, "moe_intermediate_size", 1 << 20), "are more than devices can stack"},
  };
  json many = qwen;
  many["num_experts"] = 4096;
  CHECK(refusal_of(many, "num_hidden_layers", 32).empty());
  CHECK(refusal_of(many, "num_hidden_layers", 33).find("33 layers of 4096 experts are more than 131072") !=
        std::string::npos);
  for (const auto& [said, expected] : cases) CHECK_MESSAGE(said.find(expected) != std::string::npos, said);
}

}  // namespace experts_config_test
}  // namespace troupe
