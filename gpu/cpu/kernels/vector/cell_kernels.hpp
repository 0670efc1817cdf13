// SPDX-License-Identifier: Apache-2.0
// The element-wise halves of recurrent cells, one node at a time. All inputs of an element are read
// before it is written: new_state may be state.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/activation_kernels.hpp"
#include "gpu/cpu/kernels/vector/row_kernels.hpp"
#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

inline VecF sigmoid(VecF x) { return 1.0F / (exponential(-x) + 1.0F); }

inline void store_lanes(float* to, VecF value, std::size_t lanes) {
  if (lanes == kLanes) return store(to, value);
  store_first(to, value, lanes);
}

template <class Function>
inline void for_lanes(std::size_t width, Function function) {
  for (std::size_t i = 0; i < width; i += kLanes) function(i, width - i < kLanes ? width - i : kLanes);
}

inline void lstm_node(const RecurrentNode& node) {
  const std::size_t width = node.width;
  for_lanes(width, [&](std::size_t i, std::size_t lanes) {
    const auto gate = [&](std::size_t index) {
      const std::size_t at = index * width + i;
      return load_lanes(node.input_gates + at, lanes) + load_lanes(node.state_gates + at, lanes);
    };
    const VecF c =
        sigmoid(gate(1)) * load_lanes(node.state + i, lanes) + sigmoid(gate(0)) * hyperbolic_tangent(gate(2));
    const VecF h = sigmoid(gate(3)) * hyperbolic_tangent(c);
    store_lanes(node.new_state + i, c, lanes);
    store_lanes(node.kept_h + i, h, lanes);
    store_lanes(node.h + i, h, lanes);
  });
}

inline void gru_node(const RecurrentNode& node) {
  const std::size_t width = node.width;
  for_lanes(width, [&](std::size_t i, std::size_t lanes) {
    const auto input = [&](std::size_t index) {
      return load_lanes(node.input_gates + index * width + i, lanes);
    };
    const auto state = [&](std::size_t index) {
      return load_lanes(node.state_gates + index * width + i, lanes);
    };
    const VecF n = hyperbolic_tangent(input(2) + sigmoid(input(0) + state(0)) * state(2));
    const VecF z = sigmoid(input(1) + state(1));
    const VecF h = (1.0F - z) * n + z * load_lanes(node.state + i, lanes);
    store_lanes(node.kept_h + i, h, lanes);
    store_lanes(node.h + i, h, lanes);
  });
}

inline void finish_tree_node(const TreeNode& node, std::size_t i, std::size_t lanes, VecF c, VecF output) {
  const VecF h = sigmoid(output) * hyperbolic_tangent(c);
  store_lanes(node.new_state + i, c, lanes);
  store_lanes(node.kept_h + i, h, lanes);
  store_lanes(node.h + i, h, lanes);
}

inline void tree_leaf(const TreeNode& node) {
  for_lanes(node.width, [&](std::size_t i, std::size_t lanes) {
    finish_tree_node(node, i, lanes, load_lanes(node.gates + i, lanes),
                     load_lanes(node.gates + node.width + i, lanes));
  });
}

inline void tree_binary(const TreeNode& node) {
  for_lanes(node.width, [&](std::size_t i, std::size_t lanes) {
    const auto gate = [&](std::size_t index) {
      return load_lanes(node.gates + index * node.width + i, lanes);
    };
    VecF c = sigmoid(gate(0)) * hyperbolic_tangent(gate(4));
    c += sigmoid(gate(1)) * load_lanes(node.states[0] + i, lanes);
    c += sigmoid(gate(2)) * load_lanes(node.states[1] + i, lanes);
    finish_tree_node(node, i, lanes, c, gate(3));
  });
}

inline void tree_child_sum(const TreeNode& node) {
  for_lanes(node.width, [&](std::size_t i, std::size_t lanes) {
    const auto input = [&](std::size_t index) {
      return load_lanes(node.input_gates + index * node.width + i, lanes);
    };
    const auto gate = [&](std::size_t index) {
      return input(index) + load_lanes(node.gates + index * node.width + i, lanes);
    };
    VecF c = sigmoid(gate(0)) * hyperbolic_tangent(gate(2));
    const VecF forget = input(3);
    for (std::size_t k = 0; k < node.num_inputs; ++k)
      c += sigmoid(forget + load_lanes(node.forgets[k] + i, lanes)) * load_lanes(node.states[k] + i, lanes);
    finish_tree_node(node, i, lanes, c, gate(1));
  });
}

inline float dot(const float* x, const float* y, std::size_t width) {
  VecF sum{};
  for_lanes(width, [&](std::size_t i, std::size_t lanes) {
    sum = fma(load_lanes(x + i, lanes), load_lanes(y + i, lanes), sum);
  });
  return sum_of_lanes(sum);
}

inline float additive_score(const float* query, const float* key, const float* weight, std::size_t width) {
  VecF sum{};
  for_lanes(width, [&](std::size_t i, std::size_t lanes) {
    const VecF match = hyperbolic_tangent(load_lanes(query + i, lanes) + load_lanes(key + i, lanes));
    sum = fma(load_lanes(weight + i, lanes), match, sum);
  });
  return sum_of_lanes(sum);
}

inline void add_scaled(float factor, const float* x, float* sum, std::size_t width) {
  for_lanes(width, [&](std::size_t i, std::size_t lanes) {
    store_lanes(sum + i, fma(load_lanes(x + i, lanes), broadcast(factor), load_lanes(sum + i, lanes)), lanes);
  });
}

}  // namespace
}  // namespace troupe
