// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/recurrent_cell.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;
using cuda::kNoState;
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

std::uint32_t num_predecessors(RecurrentCell cell) { return static_cast<std::uint32_t>(cell); }

// The states afterwards; h was 7 before.
States run(RecurrentCell cell, const Case& shape, DataType type, const std::vector<float>& gates,
           const std::vector<float>& c, const Links& links) {
  const std::size_t stride = shape.hidden + shape.extra_stride;
  TypedBuffer device_gates(type, gates, shape.offset), states(DataType::kF32, c, shape.offset),
      h(type, std::vector<float>(c.size(), 7.0F), shape.offset);
  DeviceArray<std::uint32_t> from(links.from), to(links.to);
  cuda::launch_recurrent_cell(
      {.cell = cell,
       .gates = device_gates.data(),
       .gates_stride = (3 + num_predecessors(cell)) * shape.hidden + shape.extra_stride,
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

// The largest difference of h from f64; rows and columns that are not written must
// stay as they were.
double worst_against_f64(RecurrentCell cell, const Case& shape, DataType type, std::size_t num_states,
                         const Links& links) {
  CAPTURE(shape.hidden);
  CAPTURE(name_of(type));
  const std::size_t stride = shape.hidden + shape.extra_stride;
  const std::uint32_t n = num_predecessors(cell);
  const std::size_t gates_stride = (3 + n) * shape.hidden + shape.extra_stride;
  const auto gates = as_stored(type, random_values(shape.rows * gates_stride, 1, 2.0F));
  const auto c = random_values(num_states * stride, 2);
  const States after = run(cell, shape, type, gates, c, links);
  std::vector<double> expected_c(c.begin(), c.end()), expected_h(c.size(), 7.0);
  for (std::uint32_t row = 0; row < shape.rows; ++row) {
    const std::size_t to = links.to.empty() ? row : links.to[row];
    for (std::size_t d = 0; d < shape.hidden; ++d) {
      const auto gate = [&](std::size_t number) {
        return double{gates[row * gates_stride + number * shape.hidden + d]};
      };
      double sum = sigmoid(gate(0)) * std::tanh(gate(1 + n));
      for (std::uint32_t k = 0; k < n; ++k) {
        const std::uint32_t from = links.from.empty() ? row : links.from[row * n + k];
        if (from != kNoState) sum += sigmoid(gate(1 + k)) * c[from * stride + d];
      }
      expected_c[to * stride + d] = sum;
      expected_h[to * stride + d] = sigmoid(gate(2 + n)) * std::tanh(sum);
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
