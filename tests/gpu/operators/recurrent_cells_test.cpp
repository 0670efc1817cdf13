// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/cells/lstm_cell.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "gpu/cpu/kernels/cells/recurrent_cells.hpp"
#include "gpu/cuda/kernels/cells/recurrent_cell.hpp"
#include "gpu/operators/cells/gru_cell.hpp"
#include "gpu/operators/cells/tree_lstm.hpp"
#include "tests/gpu/operators/state_pool.hpp"

using namespace troupe;
using cuda::RecurrentCell;

namespace {

constexpr double kAllowed = 2e-6;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A cell, whose offsets are h, c and one more, and its gates; empty: of the other product only.
struct CellInput {
  RecurrentCell cell = RecurrentCell::kLstm;
  std::size_t width = 0;
  std::vector<float> input_gates = {};
  std::vector<float> state_gates = {};
  bool shares_input_gates = false;
};

std::vector<float> cell_on_gpu(const CellInput& input, DataType type, StatePool& pool) {
  DeviceArray<float> input_gates(input.input_gates), state_gates(input.state_gates),
      h(std::vector<float>(pool.nodes.size() * input.width, kUntouched));
  TypedBuffer rounded(type, std::vector<float>(pool.nodes.size() * input.width, kUntouched));
  pool.on_gpu([&](const cuda::StateRows& state) {
    cuda::launch_recurrent_cell({.cell = input.cell,
                                 .state = state,
                                 .h_offset = 0,
                                 .c_offset = input.width,
                                 .forget_offset = 2 * input.width,
                                 .input_gates = input_gates.data(),
                                 .shares_input_gates = input.shares_input_gates,
                                 .state_gates = state_gates.data(),
                                 .h = h.data(),
                                 .rounded_h = type == DataType::kF32 ? nullptr : rounded.data(),
                                 .type = type,
                                 .width = static_cast<std::uint32_t>(input.width)},
                                nullptr);
  });
  if (type != DataType::kF32) REQUIRE(rounded.values() == as_stored(type, h.values()));
  return h.values();
}

std::vector<float> cell_on_cpu(const CellInput& input, Isa isa, StatePool& pool) {
  std::vector<float> h(pool.nodes.size() * input.width);
  const std::size_t width = input.width;
  if (input.cell == RecurrentCell::kLstm) {
    const LstmCellArguments arguments{.state = pool.rows(),
                                      .h_offset = 0,
                                      .c_offset = width,
                                      .input_gates = input.input_gates.data(),
                                      .state_gates = input.state_gates.data(),
                                      .h = h.data(),
                                      .width = width,
                                      .isa = isa};
    run_tasks(arguments, lstm_cell_num_tasks(arguments), lstm_cell_run_task);
  } else if (input.cell == RecurrentCell::kGru) {
    const GruCellArguments arguments{.state = pool.rows(),
                                     .h_offset = 0,
                                     .input_gates = input.input_gates.data(),
                                     .state_gates = input.state_gates.data(),
                                     .h = h.data(),
                                     .width = width,
                                     .isa = isa};
    run_tasks(arguments, gru_cell_num_tasks(arguments), gru_cell_run_task);
  } else {
    const bool is_leaf = input.cell == RecurrentCell::kTreeLeaf;
    const TreeLstmArguments arguments{.state = pool.rows(),
                                      .kind = is_leaf ? TreeNodeKind::kLeaf
                                              : input.cell == RecurrentCell::kTreeBinary
                                                  ? TreeNodeKind::kBinary
                                                  : TreeNodeKind::kChildSum,
                                      .h_offset = 0,
                                      .c_offset = width,
                                      .forget_offset = 2 * width,
                                      .gates = is_leaf ? input.input_gates.data() : input.state_gates.data(),
                                      .input_gates = input.input_gates.data(),
                                      .input_stride = input.shares_input_gates ? 0 : 4 * width,
                                      .h = h.data(),
                                      .width = width,
                                      .isa = isa};
    run_tasks(arguments, tree_lstm_num_tasks(arguments), tree_lstm_run_task);
  }
  return h;
}

std::vector<float> run_cell(const OperatorBackend& backend, const CellInput& input, StatePool& pool) {
  return backend.is_gpu ? cell_on_gpu(input, backend.type, pool) : cell_on_cpu(input, backend.isa, pool);
}

std::size_t num_input_gates(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::kLstm: return 4;
    case RecurrentCell::kGru: return 3;
    case RecurrentCell::kTreeLeaf: return 2;
    case RecurrentCell::kTreeBinary: return 0;
    case RecurrentCell::kTreeChildSum: return 4;
  }
  return 0;
}
std::size_t num_state_gates(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::kLstm: return 4;
    case RecurrentCell::kGru: return 3;
    case RecurrentCell::kTreeLeaf: return 0;
    case RecurrentCell::kTreeBinary: return 5;
    case RecurrentCell::kTreeChildSum: return 3;
  }
  return 0;
}

CellInput random_input(RecurrentCell cell, std::size_t width) {
  return {.cell = cell,
          .width = width,
          .input_gates = random_values(kNodes * num_input_gates(cell) * width, 1, 3.0F),
          .state_gates = random_values(kNodes * num_state_gates(cell) * width, 2, 3.0F)};
}

constexpr RecurrentCell kCells[] = {RecurrentCell::kLstm, RecurrentCell::kGru, RecurrentCell::kTreeLeaf,
                                    RecurrentCell::kTreeBinary, RecurrentCell::kTreeChildSum};

}  // namespace

TEST_CASE("lstm cell: gates in PyTorch's order; a node may write the row it reads") {
  on_every_backend_and_width([](const OperatorBackend& backend, std::size_t width) {
    StatePool pool(width);
    const CellInput input = random_input(RecurrentCell::kLstm, width);
    const auto h = run_cell(backend, input, pool);
    for (std::size_t node = 0; node < kNodes; ++node)
      for (std::size_t i = 0; i < width; ++i) {
        const auto gate = [&](std::size_t index) {
          const std::size_t at = (node * 4 + index) * width + i;
          return double{input.input_gates[at]} + input.state_gates[at];
        };
        const double c =
            sigmoid(gate(1)) * pool.before(node, 0, width + i) + sigmoid(gate(0)) * std::tanh(gate(2));
        const double expected = sigmoid(gate(3)) * std::tanh(c);
        REQUIRE(std::abs(h[node * width + i] - expected) < kAllowed);
        REQUIRE(std::abs(pool.after(node, width + i) - c) < kAllowed);
        REQUIRE(pool.after(node, i) == h[node * width + i]);
        REQUIRE(pool.after(node, 2 * width + i) ==
                pool.original[pool.nodes[node].row * pool.width + 2 * width + i]);
      }
  });
}

TEST_CASE("lstm cell: on a GPU gates far from 0 are open or shut, none is NaN") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  in_several_orders([] {
    StatePool pool(4);
    pool.nodes = {{0, 0, 1}};
    pool.inputs = {0};
    const float before[] = {2.0F, 3e38F, -0.5F, -3e38F};
    std::copy(std::begin(before), std::end(before), pool.values.begin() + 4);
    // Columns: all open; all shut; forget only; c far from 0.
    const CellInput input{.width = 4,
                          .input_gates = {6e4F, -6e4F, -kInfinity, 6e4F,      // i
                                          6e4F, -6e4F, kInfinity, -6e4F,      // f
                                          6e4F, kInfinity, 1.0F, -kInfinity,  // g
                                          6e4F, -6e4F, kInfinity, 6e4F},      // o
                          .state_gates = std::vector<float>(16)};
    const auto h = cell_on_gpu(input, DataType::kF32, pool);
    const float c[] = {3.0F, 0.0F, -0.5F, -1.0F};
    const float expected[] = {std::tanh(3.0F), 0.0F, std::tanh(-0.5F), std::tanh(-1.0F)};
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(pool.after(0, 4 + i) == c[i]);
      CHECK(std::abs(h[i] - expected[i]) < kAllowed);
    }
  });
}

TEST_CASE("gru cell: the state's bias is inside the reset gate") {
  on_every_backend_and_width([](const OperatorBackend& backend, std::size_t width) {
    StatePool pool(width);
    const CellInput input = random_input(RecurrentCell::kGru, width);
    const auto& x = input.input_gates;
    const auto& s = input.state_gates;
    const auto h = run_cell(backend, input, pool);
    for (std::size_t node = 0; node < kNodes; ++node)
      for (std::size_t i = 0; i < width; ++i) {
        const auto at = [&](std::size_t index) { return (node * 3 + index) * width + i; };
        const double n = std::tanh(x[at(2)] + sigmoid(double{x[at(0)]} + s[at(0)]) * s[at(2)]);
        const double z = sigmoid(double{x[at(1)]} + s[at(1)]);
        REQUIRE(std::abs(h[node * width + i] - ((1 - z) * n + z * pool.before(node, 0, i))) < kAllowed);
        REQUIRE(pool.after(node, i) == h[node * width + i]);
        REQUIRE(pool.after(node, width + i) == pool.original[pool.nodes[node].row * pool.width + width + i]);
      }
  });
}

TEST_CASE("tree lstm: leaves, nodes of two children, and of any number") {
  on_every_backend_and_width([](const OperatorBackend& backend, std::size_t width) {
    for (const auto cell :
         {RecurrentCell::kTreeLeaf, RecurrentCell::kTreeBinary, RecurrentCell::kTreeChildSum}) {
      CAPTURE(static_cast<int>(cell));
      StatePool pool(width);
      CellInput input = random_input(cell, width);
      // One vector for all nodes, as without a word.
      input.shares_input_gates = cell == RecurrentCell::kTreeChildSum && width % 2 == 1;
      if (input.shares_input_gates) input.input_gates.resize(4 * width);
      const auto h = run_cell(backend, input, pool);
      for (std::size_t node = 0; node < kNodes; ++node)
        for (std::size_t i = 0; i < width; ++i) {
          const auto state = [&](std::size_t index) {
            return double{input.state_gates[(node * num_state_gates(cell) + index) * width + i]};
          };
          const auto in = [&](std::size_t index) {
            const std::size_t row = input.shares_input_gates ? 0 : node * num_input_gates(cell);
            return double{input.input_gates[(row + index) * width + i]};
          };
          double c = 0, output = 0;
          if (cell == RecurrentCell::kTreeLeaf) {
            c = in(0);
            output = in(1);
          } else if (cell == RecurrentCell::kTreeBinary) {
            output = state(3);
            c = sigmoid(state(0)) * std::tanh(state(4)) +
                sigmoid(state(1)) * pool.before(node, 0, width + i) +
                sigmoid(state(2)) * pool.before(node, 1, width + i);
          } else {
            output = state(1) + in(1);
            c = sigmoid(state(0) + in(0)) * std::tanh(state(2) + in(2));
            for (std::size_t k = 0; k < pool.nodes[node].num_inputs; ++k)
              c += sigmoid(in(3) + pool.before(node, k, 2 * width + i)) * pool.before(node, k, width + i);
          }
          REQUIRE(std::abs(pool.after(node, width + i) - c) < 2 * kAllowed);
          REQUIRE(std::abs(h[node * width + i] - sigmoid(output) * std::tanh(c)) < 2 * kAllowed);
          REQUIRE(pool.after(node, i) == h[node * width + i]);
        }
    }
  });
}

TEST_CASE("recurrent cells: a node's bits do not depend on what is beside it") {
  on_every_backend_and_width([](const OperatorBackend& backend, std::size_t width) {
    for (const RecurrentCell cell : kCells) {
      CAPTURE(static_cast<int>(cell));
      const CellInput input = random_input(cell, width);
      StatePool together(width);
      const auto all = run_cell(backend, input, together);
      for (std::size_t node = 0; node < kNodes; ++node) {
        StatePool alone(width);
        alone.nodes = {alone.nodes[node]};
        const CellInput own{.cell = cell,
                            .width = width,
                            .input_gates = rows_of(input.input_gates, num_input_gates(cell) * width, node),
                            .state_gates = rows_of(input.state_gates, num_state_gates(cell) * width, node)};
        REQUIRE(run_cell(backend, own, alone) == rows_of(all, width, node));
        for (std::size_t i = 0; i < 3 * width; ++i) REQUIRE(alone.after(0, i) == together.after(node, i));
      }
    }
  });
}
