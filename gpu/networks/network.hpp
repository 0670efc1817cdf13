// SPDX-License-Identifier: Apache-2.0
// A network turns a model's configuration into programs and says which weights
// they need. One short file a model family implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/model_config.hpp"
#include "gpu/program.hpp"

namespace troupe {

// A weight as programs see it: the rows of one or more tensors of the model's
// files, stacked (query, key and value projections become one matrix).
struct WeightSpec {
  std::string name;                  // in programs
  std::vector<std::string> sources;  // in the files, stacked by rows in this order
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  bool is_matrix = false;  // a Matmul operand: devices may pack it
};

class Network {
 public:
  virtual ~Network() = default;
  virtual const ModelConfig& config() const = 0;
  virtual std::vector<WeightSpec> weights() const = 0;
  // compute_type: type of matmul operands (f32, bf16, or f16 where
  // the device has it); everything else is f32.
  virtual Program build_program(const std::string& cell, ProgramShape shape, DataType compute_type) const = 0;
};

// Throws std::runtime_error naming the architecture if it is not supported.
std::unique_ptr<Network> make_network(const ModelConfig& config);

}  // namespace troupe
