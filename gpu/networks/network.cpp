// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/network.hpp"

#include <stdexcept>
#include <string>

#include "gpu/model/model_config.hpp"
#include "gpu/networks/families/families.hpp"

namespace troupe {

void check_program_request(const Network& network, CellId cell, DataType compute_type) {
  if (const auto cells = network.cells(); cell >= cells.size()) {
    throw std::runtime_error("the network has no cell " + std::to_string(cell) + ", only " +
                             std::to_string(cells.size()));
  }
  if (compute_type == DataType::kI32) {
    throw std::runtime_error("a program computes in f32, f16 or bf16, not " +
                             std::string(name_of(compute_type)));
  }
}

std::vector<Program> build_programs(const Network& network, ProgramShape shape, DataType compute_type) {
  std::vector<Program> programs;
  for (CellId cell = 0; cell < network.cells().size(); ++cell)
    programs.push_back(network.build_program(cell, shape, compute_type));
  return programs;
}

std::unique_ptr<Network> load_network(const std::filesystem::path& model) {
  return make_network(load_model_config(model));
}

std::unique_ptr<Network> make_network(const ModelConfig& config) {
  const Family* family = find_family(config.architecture);
  if (family == nullptr) {
    throw std::runtime_error("the architecture \"" + config.architecture + "\" is not supported");
  }
  return family->make_network(config);
}

}  // namespace troupe
