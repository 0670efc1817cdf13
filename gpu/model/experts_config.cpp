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

}  // namespace

ExpertsConfig read_experts(const ConfigFields& fields, ExpertFields names, const ModelConfig& config) {
  refuse_other_parts(fields);
  ExpertsConfig experts;
  experts.num_experts = fields.required_count(names.count, kMaxExperts);
  experts.num_chosen = fields.required_count("num_experts_per_tok", kMaxExperts);
  experts.intermediate_size = fields.required_count(names.width, kMaxWidth);
  check_sizes(fields, names.width, experts, config);
  return experts;
}

}  // namespace troupe
