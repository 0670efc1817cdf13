// SPDX-License-Identifier: Apache-2.0
// Lists the weights of a network, with the names that they have in a model's files.
#pragma once

#include <string>
#include <vector>

#include "gpu/networks/network.hpp"

namespace troupe {

class WeightList {
 public:
  // other_prefix: as in WeightSpec, of every weight.
  explicit WeightList(std::string other_prefix = {});

  void add_table(const std::string& name, const std::string& source, std::uint32_t rows,
                 std::uint32_t columns);
  // added: as in WeightSpec.
  void add_vector(const std::string& name, std::vector<std::string> sources, std::uint32_t width,
                  float added = 0.0F);
  void add_matrix(const std::string& name, std::vector<std::string> sources, std::uint32_t rows,
                  std::uint32_t columns, MatrixKind kind = MatrixKind::kPlain);
  // The .weight of one module, or of several stacked by rows, and with a bias the
  // .bias of each under the name `name`_bias.
  void add_projection(const std::string& name, const std::vector<std::string>& modules, std::uint32_t rows,
                      std::uint32_t columns, bool has_bias);

  void add(WeightSpec spec);

  std::vector<WeightSpec> take() &&;

 private:
  std::string other_prefix_;
  std::vector<WeightSpec> specs_;
};

}  // namespace troupe
