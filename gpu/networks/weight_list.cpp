// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/weight_list.hpp"

#include <utility>

namespace troupe {

WeightList::WeightList(std::string other_prefix) : other_prefix_(std::move(other_prefix)) {}

void WeightList::add_table(const std::string& name, const std::string& source, std::uint32_t rows,
                           std::uint32_t columns) {
  specs_.push_back({.name = name,
                    .sources = {source},
                    .rows = rows,
                    .columns = columns,
                    .is_table = true,
                    .other_prefix = other_prefix_});
}

void WeightList::add_vector(const std::string& name, std::vector<std::string> sources, std::uint32_t width,
                            float added) {
  specs_.push_back({.name = name,
                    .sources = std::move(sources),
                    .rows = 1,
                    .columns = width,
                    .other_prefix = other_prefix_,
                    .added = added});
}

void WeightList::add_matrix(const std::string& name, std::vector<std::string> sources, std::uint32_t rows,
                            std::uint32_t columns, MatrixKind kind) {
  specs_.push_back({.name = name,
                    .sources = std::move(sources),
                    .rows = rows,
                    .columns = columns,
                    .is_matrix = true,
                    .kind = kind,
                    .other_prefix = other_prefix_});
}

void WeightList::add_projection(const std::string& name, const std::vector<std::string>& modules,
                                std::uint32_t rows, std::uint32_t columns, bool has_bias) {
  std::vector<std::string> matrices, biases;
  for (const auto& module : modules) {
    matrices.push_back(module + ".weight");
    biases.push_back(module + ".bias");
  }
  add_matrix(name, std::move(matrices), rows, columns);
  if (has_bias) add_vector(name + "_bias", std::move(biases), rows);
}

void WeightList::add(WeightSpec spec) { specs_.push_back(std::move(spec)); }

std::vector<WeightSpec> WeightList::take() && { return std::move(specs_); }

}  // namespace troupe
