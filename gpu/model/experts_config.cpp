// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/experts_config.hpp"

#include <algorithm>
#include <string>

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::uint32_t kMaxExperts = 4096;
constexpr std::uint32_t kMaxExpertsOfLayers = 1U << 17;
constexpr double kMaxRows = 1U << 22;  // of a layer's experts
constexpr std::uint32_t kPanel = 32;   // rows of an expert's matrices that devices pack together

// Parts of other mixtures, whose tensors would be left out in silence.
void refuse_other_parts(const ConfigFields& fields) {
  for (const char* name : {"shared_expert_intermediate_size", "n_shared_experts", "num_shared_experts"}) {
    if (const json* value = fields.find(name); value != nullptr && *value != 0)
      fields.refuse(std::string("experts that all tokens share (") + name + ") are not supported");
  }
  if (const json* scale = fields.find("routed_scaling_factor"); scale != nullptr && *scale != 1)
    fields.refuse("a scale of experts' shares (routed_scaling_factor) is not supported");
}

// Qwen3-MoE: layers that "mlp_only_layers" lists have no experts, nor those that a step leaves out.
std::vector<bool> read_mixed_layers(const ConfigFields& fields, const ModelConfig& config) {
  const auto step = fields.count("decoder_sparse_step", kMaxLayers).value_or(1);
  std::vector<bool> is_mixed;
  for (std::uint32_t layer = 0; layer < config.num_layers; ++layer)
    is_mixed.push_back((layer + 1) % step == 0);
  const json* dense = fields.find("mlp_only_layers");
  if (dense == nullptr) return is_mixed;
  if (!dense->is_array()) fields.refuse("mlp_only_layers is not a list");
  for (const json& layer : *dense) {
    if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() >= config.num_layers) {
      fields.refuse("mlp_only_layers has " + ConfigFields::shown(layer) +
                    ", expected a layer below num_hidden_layers " + std::to_string(config.num_layers));
    }
    is_mixed[layer.get<std::uint32_t>()] = false;
  }
  return is_mixed;
}

void check_sizes(const ConfigFields& fields, const char* width_name, const ExpertsConfig& experts,
                 const ModelConfig& config) {
  if (experts.num_chosen > experts.num_experts) {
    fields.refuse("num_experts_per_tok " + std::to_string(experts.num_chosen) + " is more than the " +
                  std::to_string(experts.num_experts) + " experts");
  }
  if (2 * experts.intermediate_size % kPanel != 0 || config.hidden_size % kPanel != 0) {
    fields.refuse(std::string("experts of ") + width_name + " " + std::to_string(experts.intermediate_size) +
                  " and hidden_size " + std::to_string(config.hidden_size) +
                  " are not supported (multiples of 16 and 32 are)");
  }
  // Each has names of its own, before any tensor is looked for.
  if (std::uint64_t{config.num_layers} * experts.num_experts > kMaxExpertsOfLayers)
    fields.refuse(std::to_string(config.num_layers) + " layers of " + std::to_string(experts.num_experts) +
                  " experts are more than 131072 experts");
  const double rows =
      experts.num_experts * std::max<double>(config.hidden_size, 2.0 * experts.intermediate_size);
  const double parameters =
      3.0 * config.num_layers * experts.num_experts * experts.intermediate_size * config.hidden_size;
  if (rows > kMaxRows)
    fields.refuse("the rows of all experts of a layer are more than devices can stack (4194304)");
  if (parameters > kMaxParameters) fields.refuse("the stated experts make more than 1e13 parameters");
}

// The constants are the kernels'.
void read_gpt_oss(const ConfigFields& fields, ExpertsConfig& experts) {
  if (fields.number("swiglu_alpha", 0.0F, 100.0F).value_or(1.702F) != 1.702F)
    fields.refuse("swiglu_alpha other than 1.702 is not supported");
  if (fields.number("swiglu_limit", 0.0F, 1e6F).value_or(7.0F) != 7.0F)
    fields.refuse("swiglu_limit other than 7 is not supported");
  experts.has_bias = true;
  experts.activation = Activation::kClampedSwish;
  experts.alternates = true;
  experts.is_transposed = fields.find("quantization_config") == nullptr;
}

}  // namespace

ExpertsConfig read_experts(const ConfigFields& fields, Family family, const ModelConfig& config) {
  refuse_other_parts(fields);
  ExpertsConfig experts;
  const bool is_qwen = family == Family::kQwen3Moe;
  const char* width = is_qwen ? "moe_intermediate_size" : "intermediate_size";
  // Newer files of Qwen3-MoE have Mixtral's name for it.
  const bool has_own_name = is_qwen && !fields.has("num_local_experts");
  experts.num_experts =
      fields.required_count(has_own_name ? "num_experts" : "num_local_experts", kMaxExperts);
  experts.num_chosen = fields.required_count("num_experts_per_tok", kMaxExperts);
  experts.intermediate_size = fields.required_count(width, kMaxWidth);
  check_sizes(fields, width, experts, config);
  if (is_qwen) {
    experts.normalizes = fields.flag("norm_topk_prob", false);
    experts.is_mixed = read_mixed_layers(fields, config);
  }
  if (family == Family::kGptOss) read_gpt_oss(fields, experts);
  return experts;
}

}  // namespace troupe
