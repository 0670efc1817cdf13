// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/experts.hpp"

#include <utility>
#include <vector>

#include "gpu/model/families.hpp"

namespace troupe {
namespace {

// The names of a family's modules in files.
struct ExpertNames {
  const char *mixture, *router, *gate, *up, *down;
};

ExpertNames names_of(const ModelConfig& config) {
  if (find_family(config.architecture)->family == Family::kMixtral)
    return {"block_sparse_moe.", "gate", "w1", "w3", "w2"};
  return {"mlp.", "gate", "gate_proj", "up_proj", "down_proj"};
}

TensorId expert_product(ProgramWriter& writer, const ExpertsConfig& experts, const std::string& name,
                        TensorId a, std::uint32_t depth, std::uint32_t width, TensorId bounds) {
  const TensorId product =
      writer.temporary(name + "_product", DataType::kF32, width, RowCount::kTokens, experts.num_chosen);
  writer.add(ExpertMatmul{}, {a, bounds, writer.weight(name, experts.num_experts * width, depth)}, {product});
  return product;
}

}  // namespace

bool is_mixed(const ModelConfig& config, std::uint32_t layer) {
  return config.experts && (config.experts->is_mixed.empty() || config.experts->is_mixed.at(layer));
}

void list_experts(WeightList& list, const ModelConfig& config, const std::string& prefix) {
  const ExpertsConfig& experts = *config.experts;
  const ExpertNames names = names_of(config);
  const std::string mixture = prefix + names.mixture;
  std::vector<std::string> gate_up, down;
  for (std::uint32_t expert = 0; expert < experts.num_experts; ++expert) {
    const std::string module = mixture + "experts." + std::to_string(expert) + ".";
    gate_up.push_back(module + names.gate + ".weight");
    gate_up.push_back(module + names.up + ".weight");
    down.push_back(module + names.down + ".weight");
  }
  const std::uint32_t hidden = config.hidden_size, width = experts.intermediate_size;
  list.add_matrix(prefix + "router", {mixture + names.router + ".weight"}, experts.num_experts, hidden,
                  MatrixKind::kRouter);
  list.add_matrix(prefix + "experts_gate_up", std::move(gate_up), experts.num_experts * 2 * width, hidden,
                  MatrixKind::kExperts);
  list.add_matrix(prefix + "experts_down", std::move(down), experts.num_experts * hidden, width,
                  MatrixKind::kExperts);
}

TensorId write_experts(ProgramWriter& writer, const ModelConfig& config, const std::string& prefix,
                       TensorId normed) {
  const ExpertsConfig& experts = *config.experts;
  const std::uint32_t hidden = config.hidden_size, width = experts.intermediate_size;
  const std::uint32_t choices = experts.num_chosen;
  const TensorId logits = writer.matmul(prefix + "router", normed, experts.num_experts, false);
  const TensorId shares = writer.temporary(prefix + "shares", DataType::kF32, choices);
  const TensorId places = writer.temporary(prefix + "places", DataType::kI32, choices);
  const TensorId bounds =
      writer.temporary(prefix + "bounds", DataType::kI32, experts.num_experts + 1, RowCount::kFixed);
  writer.add(RouteExperts{experts.normalizes}, {logits}, {shares, places, bounds});
  const TensorId grouped =
      writer.temporary(prefix + "grouped", writer.compute_type(), hidden, RowCount::kTokens, choices);
  writer.add(GroupRows{}, {normed, places}, {grouped});
  const TensorId gate_up =
      expert_product(writer, experts, prefix + "experts_gate_up", grouped, hidden, 2 * width, bounds);
  const TensorId h =
      writer.temporary(prefix + "experts_h", writer.compute_type(), width, RowCount::kTokens, choices);
  writer.add(GatedActivation{}, {gate_up}, {h});
  const TensorId down = expert_product(writer, experts, prefix + "experts_down", h, width, hidden, bounds);
  const TensorId sums = writer.temporary(prefix + "experts_sums", DataType::kF32, hidden);
  writer.add(CombineExperts{}, {down, places, shares}, {sums});
  return sums;
}

}  // namespace troupe
