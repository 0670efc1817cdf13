// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/recurrent_cell.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "gpu/cpu/kernels/cells/recurrent_cells.hpp"
#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;
using cuda::kNoState;
using cuda::num_gates;
using cuda::num_predecessors;
using cuda::RecurrentCell;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  std::uint32_t rows, hidden;
  std::size_t extra_stride = 0;
  std::size_t offset = 0;
};
constexpr Case kCases[] = {{0, 8}, {1, 1}, {3, 8}, {2, 77, 3}, {5, 64, 8}, {4, 40, 0, 1}};

// Rows of states: what a cell reads and what it writes.
struct Links {
  std::vector<std::uint32_t> from, to;
};

struct States {
  std::vector<float> c, h;  // [states, stride]
};

// The states afterwards; h was 7 before. more_gates: empty: none.
States run(RecurrentCell cell, const Case& shape, DataType type, const std::vector<float>& gates,
           const std::vector<float>& c, const Links& links, const std::vector<float>& more_gates = {}) {
  const std::size_t stride = shape.hidden + shape.extra_stride;
  TypedBuffer device_gates(type, gates, shape.offset), more(type, more_gates, shape.offset),
      states(DataType::kF32, c, shape.offset), h(type, std::vector<float>(c.size(), 7.0F), shape.offset);
  DeviceArray<std::uint32_t> from(links.from), to(links.to);
  cuda::launch_recurrent_cell({.cell = cell,
                               .gates = device_gates.data(),
                               .more_gates = more_gates.empty() ? nullptr : more.data(),
                               .gates_stride = num_gates(cell) * shape.hidden + shape.extra_stride,
                               .c = static_cast<float*>(states.data()),
                               .c_stride = stride,
                               .h = h.data(),
                               .h_stride = stride,
                               .from = links.from.empty() ? nullptr : from.data(),
                               .to = links.to.empty() ? nullptr : to.data(),
                               .type = type,
                               .num_rows = shape.rows,
                               .hidden = shape.hidden},
                              nullptr);
  return {states.values(), h.values()};
}

double sigmoid(double v) { return 1.0 / (1.0 + std::exp(-v)); }

// c of a cell by the contracts of LstmCell, TreeLstmLeaf and TreeLstmBinary; the output gate is
// the last one, but of an inner node, where it is in front of u.
template <class Gate, class Before>
double new_state(RecurrentCell cell, const Gate& gate, const Before& before) {
  switch (cell) {
    case RecurrentCell::kTreeLeaf: return gate(0);
    case RecurrentCell::kLstm: return sigmoid(gate(1)) * before(0) + sigmoid(gate(0)) * std::tanh(gate(2));
    case RecurrentCell::kTreeNode: break;
  }
  return sigmoid(gate(0)) * std::tanh(gate(4)) + sigmoid(gate(1)) * before(0) + sigmoid(gate(2)) * before(1);
}

// The largest difference of h from f64; rows and columns that are not written must
// stay as they were.
double worst_against_f64(RecurrentCell cell, const Case& shape, DataType type, std::size_t num_states,
                         const Links& links) {
  CAPTURE(shape.hidden);
  CAPTURE(name_of(type));
  const std::size_t stride = shape.hidden + shape.extra_stride;
  const std::uint32_t n = num_predecessors(cell);
  const std::size_t gates_stride = num_gates(cell) * shape.hidden + shape.extra_stride;
  const auto gates = as_stored(type, random_values(shape.rows * gates_stride, 1, 2.0F));
  const bool has_more = cell == RecurrentCell::kLstm;
  const auto more =
      as_stored(type, has_more ? random_values(shape.rows * gates_stride, 3, 2.0F) : std::vector<float>());
  const auto c = random_values(num_states * stride, 2);
  const States after = run(cell, shape, type, gates, c, links, more);
  std::vector<double> expected_c(c.begin(), c.end()), expected_h(c.size(), 7.0);
  for (std::uint32_t row = 0; row < shape.rows; ++row) {
    const std::size_t to = links.to.empty() ? row : links.to[row];
    for (std::size_t d = 0; d < shape.hidden; ++d) {
      const auto gate = [&](std::size_t number) {
        const std::size_t at = row * gates_stride + number * shape.hidden + d;
        return double{gates[at]} + (more.empty() ? 0.0F : more[at]);
      };
      const auto before = [&](std::uint32_t k) {
        const std::uint32_t from = links.from.empty() ? row : links.from[row * n + k];
        return from == kNoState ? 0.0 : double{c[from * stride + d]};
      };
      const double sum = new_state(cell, gate, before);
      expected_c[to * stride + d] = sum;
      expected_h[to * stride + d] = sigmoid(gate(cell == RecurrentCell::kTreeLeaf ? 1 : 3)) * std::tanh(sum);
    }
  }
  double worst_c = 0.0, worst_h = 0.0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    worst_c = std::max(worst_c, std::abs(after.c[i] - expected_c[i]));
    worst_h = std::max(worst_h, std::abs(after.h[i] - expected_h[i]));
  }
  CHECK(worst_c < 4e-6);  // f32 whatever the type
  return worst_h;
}

}  // namespace

TEST_CASE("cuda recurrent cell: an lstm's step equals f64, states in place") {
  in_several_orders([] {
    for (const DataType type : kElementTypes) {
      for (const Case& shape : kCases) {
        CHECK(worst_against_f64(RecurrentCell::kLstm, shape, type, shape.rows + 1, {}) <
              rounding_of(type) + 1e-6);
      }
    }
  });
}

TEST_CASE("cuda recurrent cell: states are found by number, at a sequence's begin they are 0") {
  const Case shape{3, 20};
  for (const DataType type : kElementTypes) {
    // In place, begun, and continued elsewhere.
    const Links links{.from = {4, kNoState, 1}, .to = {4, 0, 3}};
    CHECK(worst_against_f64(RecurrentCell::kLstm, shape, type, 5, links) < rounding_of(type) + 1e-6);
  }
}

TEST_CASE("cuda recurrent cell: leaves and inner nodes of trees equal f64") {
  for (const DataType type : kElementTypes) {
    for (const Case& shape : kCases) {
      Links links;
      for (std::uint32_t row = 0; row < shape.rows; ++row) links.to.push_back(2 * row + 1);
      const std::size_t num_states = 2 * shape.rows + 3;
      CHECK(worst_against_f64(RecurrentCell::kTreeLeaf, shape, type, num_states, links) <
            rounding_of(type) + 1e-6);
      for (std::uint32_t row = 0; row < shape.rows; ++row) {
        // Children lie between the rows that are written; some node has one only.
        links.from.insert(links.from.end(), {2 * row, row == 1 ? kNoState : 2 * row + 2});
      }
      CHECK(worst_against_f64(RecurrentCell::kTreeNode, shape, type, num_states, links) <
            rounding_of(type) + 1e-6);
    }
  }
}

// Pools of rows [c, h] on either side: the same gates, the same rows read and written.
TEST_CASE("cuda recurrent cell: trees and chains get the states that CPU cores compute") {
  constexpr std::size_t kWidth = 24, kStates = 9, kRows = 3;
  const auto gates = random_values(kRows * 5 * kWidth, 1, 2.0F),
             more = random_values(kRows * 4 * kWidth, 2, 2.0F);
  const auto c = random_values(kStates * kWidth, 3);
  const std::vector<float> zeros(2 * kWidth);
  for (const auto cell : {RecurrentCell::kTreeLeaf, RecurrentCell::kLstm, RecurrentCell::kTreeNode}) {
    CAPTURE(static_cast<int>(cell));
    const std::uint32_t n = num_predecessors(cell);
    Links links{.from = {}, .to = {6, 7, 8}};
    for (std::uint32_t i = 0; i < kRows * n; ++i) links.from.push_back(i);
    const std::vector<float> own(gates.begin(), gates.begin() + kRows * num_gates(cell) * kWidth);
    const bool is_lstm = cell == RecurrentCell::kLstm;
    const States after =
        run(cell, {kRows, kWidth}, DataType::kF32, own, c, links, is_lstm ? more : std::vector<float>());

    std::vector<float> pool(kStates * 2 * kWidth), h(kRows * kWidth);
    for (std::size_t row = 0; row < kStates; ++row)
      std::copy_n(&c[row * kWidth], kWidth, &pool[row * 2 * kWidth]);
    std::vector<NodeRows> nodes;
    for (std::uint32_t row = 0; row < kRows; ++row) nodes.push_back({links.to[row], row * n, n});
    const StateRows state{pool.data(), 2 * kWidth, nodes, links.from, zeros.data()};
    if (is_lstm) {
      const LstmCellArguments arguments{.state = state,
                                        .h_offset = kWidth,
                                        .c_offset = 0,
                                        .input_gates = own.data(),
                                        .state_gates = more.data(),
                                        .h = h.data(),
                                        .width = kWidth};
      for (std::size_t task = 0; task < lstm_cell_num_tasks(arguments); ++task)
        lstm_cell_run_task(arguments, task);
    } else {
      const TreeLstmArguments arguments{
          .state = state,
          .kind = cell == RecurrentCell::kTreeLeaf ? TreeNodeKind::kLeaf : TreeNodeKind::kBinary,
          .h_offset = kWidth,
          .c_offset = 0,
          .gates = own.data(),
          .h = h.data(),
          .width = kWidth};
      for (std::size_t task = 0; task < tree_lstm_num_tasks(arguments); ++task)
        tree_lstm_run_task(arguments, task);
    }
    for (const std::size_t row : {6, 7, 8})
      for (std::size_t i = 0; i < kWidth; ++i) {
        CHECK(std::abs(after.c[row * kWidth + i] - pool[row * 2 * kWidth + i]) < 4e-6F);
        CHECK(std::abs(after.h[row * kWidth + i] - pool[(row * 2 + 1) * kWidth + i]) < 4e-6F);
      }
  }
}

TEST_CASE("cuda recurrent cell: gates far from 0 are open or shut, none is NaN") {
  const Case shape{1, 4};
  // Columns: all open; all shut; forget only; c far from 0.
  const std::vector<float> gates{6e4F, -6e4F,     -kInfinity, 6e4F,        // i
                                 6e4F, -6e4F,     kInfinity,  -6e4F,       // f
                                 6e4F, kInfinity, 1.0F,       -kInfinity,  // g
                                 6e4F, -6e4F,     kInfinity,  6e4F};       // o
  for (const DataType type : kElementTypes) {
    const States after = run(RecurrentCell::kLstm, shape, type, gates, {2.0F, 3e38F, -0.5F, -3e38F}, {});
    CHECK(after.c == std::vector<float>{3.0F, 0.0F, -0.5F, -1.0F});
    const float expected[] = {std::tanh(3.0F), 0.0F, std::tanh(-0.5F), std::tanh(-1.0F)};
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(std::abs(after.h[i] - expected[i]) < rounding_of(type));
    }
  }
}

TEST_CASE("cuda recurrent cell: an open forget gate adds up for ever without overflow") {
  const Case shape{1, 8};
  const std::vector<float> open(4 * 8, 50.0F);
  std::vector<float> c(8, 0.0F);
  for (int step = 0; step < 100; ++step) {
    c = run(RecurrentCell::kLstm, shape, DataType::kF16, open, c, {}).c;
  }
  CHECK(c == std::vector<float>(8, 100.0F));
}

TEST_CASE("cuda recurrent cell: a tree's node without its children is refused") {
  CHECK_THROWS_WITH_AS(
      cuda::launch_recurrent_cell({.cell = RecurrentCell::kTreeNode, .num_rows = 1, .hidden = 1}, nullptr),
      "a tree's node needs the rows of its children's states", std::invalid_argument);
}
