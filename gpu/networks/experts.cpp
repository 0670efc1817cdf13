// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/experts.hpp"

#include <utility>
#include <vector>

namespace troupe {
namespace {

// Names of a part of each expert, which may consist of two tensors.
std::vector<std::string> names_in_files(const ModelConfig& config, const std::string& mixture,
                                        const std::vector<const char*>& parts, const char* suffix) {
  std::vector<std::string> names;
  for (std::uint32_t expert = 0; expert < config.experts->num_experts; ++expert)
    for (const char* part : parts)
      names.push_back(mixture + "experts." + std::to_string(expert) + "." + part + suffix);
  return names;
}

// The products of a mixture that is being written.
class ExpertProductWriter {
 public:
  ExpertProductWriter(ProgramWriter& writer, const ExpertsConfig& experts, TensorId bounds)
      : writer_(writer), experts_(experts), bounds_(bounds) {}

  TensorId product(const std::string& name, TensorId a, std::uint32_t depth, std::uint32_t width) {
    const std::uint32_t rows = experts_.num_experts * width;
    const TensorId result =
        writer_.temporary(name + "_product", DataType::kF32, width, RowCount::kTokens, experts_.num_chosen);
    std::vector<TensorId> inputs = {a, bounds_, writer_.weight(name, rows, depth)};
    if (experts_.has_bias) inputs.push_back(writer_.weight(name + "_bias", 1, rows));
    writer_.add(ExpertMatmul{}, std::move(inputs), {result});
    return result;
  }

 private:
  ProgramWriter& writer_;
  const ExpertsConfig& experts_;
  TensorId bounds_;
};

}  // namespace

bool is_mixed(const ModelConfig& config, std::uint32_t layer) {
  return config.experts && (config.experts->is_mixed.empty() || config.experts->is_mixed.at(layer));
}

void list_experts(WeightList& list, const ModelConfig& config, const ExpertNames& names,
                  const std::string& prefix) {
  const ExpertsConfig& experts = *config.experts;
  const std::string mixture = prefix + names.mixture;
  const std::string router = mixture + names.router;
  const std::uint32_t hidden = config.hidden_size, width = experts.intermediate_size;
  list.add_matrix(prefix + "router", {router + ".weight"}, experts.num_experts, hidden, MatrixKind::kRouter);
  if (experts.has_bias) list.add_vector(prefix + "router_bias", {router + ".bias"}, experts.num_experts);
  const auto add = [&](const std::string& name, const std::vector<const char*>& parts, std::uint32_t outputs,
                       std::uint32_t inputs, bool alternates) {
    const std::uint32_t rows = experts.num_experts * outputs;
    list.add({.name = prefix + name,
              .sources = names_in_files(config, mixture, parts, ".weight"),
              .rows = rows,
              .columns = inputs,
              .is_matrix = true,
              .kind = MatrixKind::kExperts,
              .order = experts.is_transposed ? FileOrder::kTransposed : FileOrder::kAsRead,
              .alternates = alternates});
    if (!experts.has_bias) return;
    list.add({.name = prefix + name + "_bias",
              .sources = names_in_files(config, mixture, parts, ".bias"),
              .rows = 1,
              .columns = rows,
              .kind = MatrixKind::kExperts,
              .alternates = alternates});
  };
  const std::vector<const char*> gate_up = {names.gate, names.up}, fused = {"gate_up_proj"};
  add("experts_gate_up", experts.alternates ? fused : gate_up, 2 * width, hidden, experts.alternates);
  add("experts_down", {names.down}, hidden, width, false);
}

TensorId write_experts(ProgramWriter& writer, const ModelConfig& config, const std::string& prefix,
                       TensorId normed) {
  const ExpertsConfig& experts = *config.experts;
  const std::uint32_t hidden = config.hidden_size, width = experts.intermediate_size;
  const std::uint32_t choices = experts.num_chosen;
  const TensorId logits = writer.matmul(prefix + "router", normed, experts.num_experts, experts.has_bias);
  const TensorId shares = writer.temporary(prefix + "shares", DataType::kF32, choices);
  const TensorId places = writer.temporary(prefix + "places", DataType::kI32, choices);
  const TensorId bounds =
      writer.temporary(prefix + "bounds", DataType::kI32, experts.num_experts + 1, RowCount::kFixed);
  writer.add(RouteExperts{experts.normalizes}, {logits}, {shares, places, bounds});
  const TensorId grouped =
      writer.temporary(prefix + "grouped", writer.compute_type(), hidden, RowCount::kTokens, choices);
  writer.add(GroupRows{}, {normed, places}, {grouped});
  ExpertProductWriter products(writer, experts, bounds);
  const TensorId gate_up = products.product(prefix + "experts_gate_up", grouped, hidden, 2 * width);
  const TensorId h =
      writer.temporary(prefix + "experts_h", writer.compute_type(), width, RowCount::kTokens, choices);
  writer.add(GatedActivation{experts.activation}, {gate_up}, {h});
  const TensorId down = products.product(prefix + "experts_down", h, width, hidden);
  const TensorId sums = writer.temporary(prefix + "experts_sums", DataType::kF32, hidden);
  writer.add(CombineExperts{}, {down, places, shares}, {sums});
  return sums;
}

}  // namespace troupe
