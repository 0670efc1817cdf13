// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/cells/lstm_cell.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "gpu/cpu/kernels/cells/recurrent_cells.hpp"
#include "gpu/operators/cells/additive_attention.hpp"
#include "gpu/operators/cells/attend_states.hpp"
#include "gpu/operators/cells/gather_state.hpp"
#include "gpu/operators/cells/gru_cell.hpp"
#include "gpu/operators/cells/keep_state.hpp"
#include "gpu/operators/cells/tree_lstm.hpp"
#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

constexpr double kAllowed = 2e-6;
constexpr std::size_t kWidths[] = {1, 5, 16, 37, 64};
constexpr std::size_t kNodes = 7, kRowsOfPool = 12;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A pool of rows, [h, c, one more], and nodes that read 0 to 3 of them; node 2 writes the row it reads.
struct Pool {
  explicit Pool(std::size_t width)
      : width(3 * width), values(random_values(kRowsOfPool * 3 * width, 5)), zeros(3 * width) {}

  StateRows rows() { return {values.data(), width, nodes, inputs, zeros.data()}; }
  double before(std::size_t node, std::size_t input, std::size_t column) const {
    if (input >= nodes[node].num_inputs) return 0;
    return original[inputs[nodes[node].first_input + input] * width + column];
  }
  double after(std::size_t node, std::size_t column) const {
    return values[nodes[node].row * width + column];
  }

  std::size_t width;
  std::vector<float> values;
  std::vector<float> original = values;
  std::vector<float> zeros;
  std::vector<NodeRows> nodes = {{0, 0, 0}, {1, 0, 1}, {2, 1, 1}, {3, 2, 2},
                                 {4, 4, 3}, {5, 0, 2}, {11, 7, 1}};
  std::vector<std::uint32_t> inputs = {6, 2, 7, 8, 9, 10, 8, 6};
};

template <class Arguments>
void run_all(const Arguments& arguments, std::size_t num_tasks, void (*run)(const Arguments&, std::size_t)) {
  while (num_tasks-- > 0) run(arguments, num_tasks);
}

// body(isa, width), for each instruction set and several widths.
template <class Body>
void on_every_isa(const Body& body) {
  for (const Isa isa : supported_isas())
    for (const std::size_t width : kWidths) {
      CAPTURE(name_of(isa));
      CAPTURE(width);
      body(isa, width);
    }
}

}  // namespace

TEST_CASE("lstm cell: gates in PyTorch's order; a node may write the row it reads") {
  on_every_isa([](Isa isa, std::size_t width) {
    Pool pool(width);
    const auto input = random_values(kNodes * 4 * width, 1, 3.0F),
               state = random_values(kNodes * 4 * width, 2, 3.0F);
    std::vector<float> h(kNodes * width);
    const LstmCellArguments arguments{.state = pool.rows(),
                                      .h_offset = 0,
                                      .c_offset = width,
                                      .input_gates = input.data(),
                                      .state_gates = state.data(),
                                      .h = h.data(),
                                      .width = width,
                                      .isa = isa};
    run_all(arguments, lstm_cell_num_tasks(arguments), lstm_cell_run_task);
    for (std::size_t node = 0; node < kNodes; ++node)
      for (std::size_t i = 0; i < width; ++i) {
        const auto gate = [&](std::size_t index) {
          const std::size_t at = (node * 4 + index) * width + i;
          return double{input[at]} + state[at];
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

TEST_CASE("gru cell: the state's bias is inside the reset gate") {
  on_every_isa([](Isa isa, std::size_t width) {
    Pool pool(width);
    const auto x = random_values(kNodes * 3 * width, 1, 3.0F), s = random_values(kNodes * 3 * width, 2, 3.0F);
    std::vector<float> h(kNodes * width);
    const GruCellArguments arguments{.state = pool.rows(),
                                     .h_offset = 0,
                                     .input_gates = x.data(),
                                     .state_gates = s.data(),
                                     .h = h.data(),
                                     .width = width,
                                     .isa = isa};
    run_all(arguments, gru_cell_num_tasks(arguments), gru_cell_run_task);
    for (std::size_t node = 0; node < kNodes; ++node)
      for (std::size_t i = 0; i < width; ++i) {
        const auto at = [&](std::size_t index) { return (node * 3 + index) * width + i; };
        const double n = std::tanh(x[at(2)] + sigmoid(double{x[at(0)]} + s[at(0)]) * s[at(2)]);
        const double z = sigmoid(double{x[at(1)]} + s[at(1)]);
        REQUIRE(std::abs(h[node * width + i] - ((1 - z) * n + z * pool.before(node, 0, i))) < kAllowed);
        REQUIRE(pool.after(node, i) == h[node * width + i]);
      }
  });
}

TEST_CASE("tree lstm: leaves, nodes of two children, and of any number") {
  on_every_isa([](Isa isa, std::size_t width) {
    for (const auto kind : {TreeNodeKind::kLeaf, TreeNodeKind::kBinary, TreeNodeKind::kChildSum}) {
      CAPTURE(static_cast<int>(kind));
      Pool pool(width);
      const auto gates = random_values(kNodes * 5 * width, 1, 3.0F),
                 input = random_values(kNodes * 4 * width, 2, 3.0F);
      std::vector<float> h(kNodes * width);
      const bool is_shared = width % 2 == 1;  // one vector for all nodes, as without a word
      const TreeLstmArguments arguments{.state = pool.rows(),
                                        .kind = kind,
                                        .h_offset = 0,
                                        .c_offset = width,
                                        .forget_offset = 2 * width,
                                        .gates = gates.data(),
                                        .input_gates = input.data(),
                                        .input_stride = is_shared ? 0 : 4 * width,
                                        .h = h.data(),
                                        .width = width,
                                        .isa = isa};
      run_all(arguments, tree_lstm_num_tasks(arguments), tree_lstm_run_task);
      for (std::size_t node = 0; node < kNodes; ++node)
        for (std::size_t i = 0; i < width; ++i) {
          const std::size_t num_gates = kind == TreeNodeKind::kLeaf     ? 2
                                        : kind == TreeNodeKind::kBinary ? 5
                                                                        : 3;
          const auto gate = [&](std::size_t index) {
            return double{gates[(node * num_gates + index) * width + i]};
          };
          const auto in = [&](std::size_t index) {
            return double{input[((is_shared ? 0 : node * 4) + index) * width + i]};
          };
          double c = gate(0), output = gate(1);
          if (kind == TreeNodeKind::kBinary) {
            output = gate(3);
            c = sigmoid(gate(0)) * std::tanh(gate(4)) + sigmoid(gate(1)) * pool.before(node, 0, width + i) +
                sigmoid(gate(2)) * pool.before(node, 1, width + i);
          } else if (kind == TreeNodeKind::kChildSum) {
            output = gate(1) + in(1);
            c = sigmoid(gate(0) + in(0)) * std::tanh(gate(2) + in(2));
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

TEST_CASE("attend states: softmax over all inputs but the first, h behind the context") {
  on_every_isa([](Isa isa, std::size_t width) {
    Pool pool(width);
    const auto query = random_values(kNodes * width, 1), h = random_values(kNodes * width, 2);
    std::vector<float> both(kNodes * 2 * width);
    const AttendStatesArguments arguments{.state = pool.rows(),
                                          .key_offset = 0,
                                          .value_offset = width,
                                          .query = query.data(),
                                          .h = h.data(),
                                          .context = both.data(),
                                          .width = width,
                                          .isa = isa};
    run_all(arguments, attend_states_num_tasks(arguments), attend_states_run_task);
    for (std::size_t node = 0; node < kNodes; ++node) {
      const std::size_t num_inputs = pool.nodes[node].num_inputs;
      std::vector<double> shares;
      double sum = 0;
      for (std::size_t k = 1; k < num_inputs; ++k) {
        double score = 0;
        for (std::size_t i = 0; i < width; ++i) score += query[node * width + i] * pool.before(node, k, i);
        shares.push_back(std::exp(score));
        sum += shares.back();
      }
      for (std::size_t i = 0; i < width; ++i) {
        double expected = 0;
        for (std::size_t k = 1; k < num_inputs; ++k)
          expected += shares[k - 1] / sum * pool.before(node, k, width + i);
        REQUIRE(std::abs(both[node * 2 * width + i] - expected) < 10 * kAllowed);
        REQUIRE(both[(node * 2 + 1) * width + i] == h[node * width + i]);
      }
    }
  });
}

TEST_CASE("additive attention: scores are sums of tanh, the context is behind x") {
  on_every_isa([](Isa isa, std::size_t width) {
    Pool pool(width);
    constexpr std::size_t kXWidth = 3;
    const auto query = random_values(kNodes * width, 1), x = random_values(kNodes * kXWidth, 2),
               weight = random_values(width, 3);
    std::vector<float> both(kNodes * (kXWidth + width));
    const AdditiveAttentionArguments arguments{.state = pool.rows(),
                                               .key_offset = 2 * width,
                                               .value_offset = width,
                                               .query = query.data(),
                                               .weight = weight.data(),
                                               .x = x.data(),
                                               .x_width = kXWidth,
                                               .x_and_context = both.data(),
                                               .width = width,
                                               .isa = isa};
    run_all(arguments, additive_attention_num_tasks(arguments), additive_attention_run_task);
    for (std::size_t node = 0; node < kNodes; ++node) {
      std::vector<double> shares;
      double sum = 0;
      for (std::size_t k = 1; k < pool.nodes[node].num_inputs; ++k) {
        double score = 0;
        for (std::size_t i = 0; i < width; ++i)
          score += weight[i] * std::tanh(query[node * width + i] + pool.before(node, k, 2 * width + i));
        shares.push_back(std::exp(score));
        sum += shares.back();
      }
      const float* given = both.data() + node * (kXWidth + width);
      for (std::size_t i = 0; i < kXWidth; ++i) REQUIRE(given[i] == x[node * kXWidth + i]);
      for (std::size_t i = 0; i < width; ++i) {
        double expected = 0;
        for (std::size_t k = 0; k < shares.size(); ++k)
          expected += shares[k] / sum * pool.before(node, k + 1, width + i);
        REQUIRE(std::abs(given[kXWidth + i] - expected) < 10 * kAllowed);
      }
    }
  });
}

TEST_CASE(
    "gather state: inputs side by side or summed, zeros where there is none; keep state: a part of the row") {
  on_every_isa([](Isa isa, std::size_t width) {
    Pool pool(width);
    std::vector<float> gathered(kNodes * 2 * width);
    const GatherStateArguments beside{.state = pool.rows(),
                                      .offset = width,
                                      .width = width,
                                      .num_inputs = 2,
                                      .gathered = gathered.data(),
                                      .isa = isa};
    run_all(beside, gather_state_num_tasks(beside), gather_state_run_task);
    std::vector<float> sums(kNodes * width);
    const GatherStateArguments summed{.state = pool.rows(),
                                      .offset = width,
                                      .width = width,
                                      .sums = true,
                                      .gathered = sums.data(),
                                      .isa = isa};
    run_all(summed, gather_state_num_tasks(summed), gather_state_run_task);
    const KeepStateArguments keep{
        .state = pool.rows(), .offset = 2 * width, .width = width, .x = sums.data()};
    run_all(keep, keep_state_num_tasks(keep), keep_state_run_task);
    for (std::size_t node = 0; node < kNodes; ++node)
      for (std::size_t i = 0; i < width; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < pool.nodes[node].num_inputs; ++k) sum += pool.before(node, k, width + i);
        for (std::size_t k = 0; k < 2; ++k)
          REQUIRE(gathered[(node * 2 + k) * width + i] == pool.before(node, k, width + i));
        REQUIRE(std::abs(sums[node * width + i] - sum) < kAllowed);
        REQUIRE(pool.after(node, 2 * width + i) == sums[node * width + i]);
        REQUIRE(pool.after(node, i) == pool.original[pool.nodes[node].row * pool.width + i]);
      }
  });
}
