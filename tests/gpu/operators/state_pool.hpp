// SPDX-License-Identifier: Apache-2.0
// A pool of rows of state for tests of operators, with a batch's nodes, on every backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gpu/cpu/kernels/cells/state_rows.hpp"
#include "gpu/cuda/kernels/cells/state_rows.hpp"
#include "tests/gpu/operators/backends.hpp"

namespace troupe {

// A pool of rows, [h, c, one more], and nodes that read some of them.
struct StatePool {
  // Nodes that read 0 to 3 rows; node 2 writes the row it reads, which no other does.
  explicit StatePool(std::size_t width) : StatePool(width, 12) {
    nodes = {{0, 0, 0}, {1, 0, 1}, {2, 1, 1}, {3, 2, 2}, {4, 4, 3}, {5, 2, 2}, {11, 7, 1}};
    inputs = {6, 2, 7, 8, 9, 10, 8, 6};
  }
  // Nodes that read so many rows each, behind the nodes' own.
  static StatePool of_readers(std::size_t width, const std::vector<std::uint32_t>& num_inputs) {
    const auto num_nodes = static_cast<std::uint32_t>(num_inputs.size());
    const std::uint32_t total = std::accumulate(num_inputs.begin(), num_inputs.end(), 0U);
    StatePool pool(width, num_nodes + total);
    for (std::uint32_t node = 0; node < num_nodes; ++node) {
      pool.nodes.push_back({node, static_cast<std::uint32_t>(pool.inputs.size()), num_inputs[node]});
      for (std::uint32_t i = 0; i < num_inputs[node]; ++i)  // scattered
        pool.inputs.push_back(num_nodes + static_cast<std::uint32_t>((pool.inputs.size() * 7) % total));
    }
    return pool;
  }

  StateRows rows() { return {values.data(), width, nodes, inputs, zeros.data()}; }
  double before(std::size_t node, std::size_t input, std::size_t column) const {
    if (input >= nodes[node].num_inputs) return 0;
    return original[inputs[nodes[node].first_input + input] * width + column];
  }
  double after(std::size_t node, std::size_t column) const {
    return values[nodes[node].row * width + column];
  }

  // kernel(const cuda::StateRows&) on a GPU, or its interpreter.
  template <class Kernel>
  void on_gpu(const Kernel& kernel) {
    DeviceArray<float> memory(values);
    DeviceArray<NodeRows> device_nodes(nodes);
    DeviceArray<std::uint32_t> device_inputs(inputs);
    kernel(cuda::StateRows{.rows = memory.data(),
                           .width = width,
                           .nodes = device_nodes.data(),
                           .inputs = device_inputs.data(),
                           .num_nodes = static_cast<std::uint32_t>(nodes.size())});
    values = memory.values();
  }

  std::size_t width;
  std::vector<float> values;
  std::vector<float> original = values;
  std::vector<float> zeros;
  std::vector<NodeRows> nodes = {};
  std::vector<std::uint32_t> inputs = {};

 private:
  StatePool(std::size_t width, std::size_t num_rows)
      : width(3 * width), values(random_values(num_rows * 3 * width, 5)), zeros(3 * width) {}
};

inline constexpr std::size_t kNodes = 7;  // of StatePool(width)

inline constexpr std::size_t kWidthsOfState[] = {1, 5, 16, 37, 64};

// body(backend, width), for several widths. A CPU has these operators in f32 only; the type of
// a GPU is that of what a product reads.
template <class Body>
void on_every_backend_and_width(const Body& body) {
  on_every_backend([&](const OperatorBackend& backend) {
    if (!backend.is_gpu && backend.type != DataType::kF32) return;
    for (const std::size_t width : kWidthsOfState) {
      CAPTURE(width);
      body(backend, width);
    }
  });
}

}  // namespace troupe
