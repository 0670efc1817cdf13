// SPDX-License-Identifier: Apache-2.0
// A step of BatchMaker's LSTM (its figure 2.3): 512 cells, 1024 wide, as a network's program has it in
// bf16. States lie anywhere in the pool: h is gathered for its product, input and state have a
// product each, and the cell finds c by number.
#include <algorithm>
#include <numeric>
#include <random>

#include "bench/kernels/cuda/gemms.hpp"
#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/kernels/cells/gather_state.hpp"
#include "gpu/cuda/kernels/cells/recurrent_cell.hpp"

namespace troupe::bench {
namespace {

using namespace troupe::cuda;

// Each in a row of its own, which it reads and writes.
std::vector<NodeRows> scattered_nodes(std::uint32_t count, std::uint32_t num_states) {
  std::vector<std::uint32_t> rows(num_states);
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), std::minstd_rand(1));
  std::vector<NodeRows> nodes;
  for (std::uint32_t i = 0; i < count; ++i) nodes.push_back({rows[i], i, 1});
  return nodes;
}
std::vector<std::uint32_t> rows_of(const std::vector<NodeRows>& nodes) {
  std::vector<std::uint32_t> rows;
  for (const NodeRows& node : nodes) rows.push_back(node.row);
  return rows;
}

void bench_lstm(Bench& bench, std::uint32_t cells, std::optional<Goal> goal) {
  const std::uint32_t hidden = bench.pick(1024U, 32U), rows = bench.pick(cells, 3U);
  const std::uint32_t num_states = 2 * rows;
  const std::size_t row_size = std::size_t{rows} * hidden, weight_size = std::size_t{4} * hidden * hidden;
  const auto of_nodes = scattered_nodes(rows, num_states);
  const DeviceBuffer x = random_buffer(DataType::kBF16, row_size),
                     input_weight = random_buffer(DataType::kBF16, weight_size, 0.03F),
                     state_weight = random_buffer(DataType::kBF16, weight_size, 0.03F),
                     bias = random_buffer(DataType::kF32, 4 * hidden),
                     input_gates = device_buffer(4 * row_size * sizeof(float)),
                     state_gates = device_buffer(4 * row_size * sizeof(float)),
                     states = random_buffer(DataType::kF32, std::size_t{num_states} * 2 * hidden),
                     gathered = device_buffer(row_size * 2), h = device_buffer(row_size * sizeof(float)),
                     rounded = device_buffer(row_size * 2), nodes = copy_of(of_nodes),
                     inputs = copy_of(rows_of(of_nodes));
  const StateRows state{.rows = as<float>(states),
                        .width = 2 * hidden,
                        .nodes = as<NodeRows>(nodes),
                        .inputs = as<std::uint32_t>(inputs),
                        .num_nodes = rows};
  const GemmShape shape{.num_tokens = rows,
                        .num_outputs = 4 * hidden,
                        .depth = hidden,
                        .c_type = DataType::kF32,
                        .has_bias = true};
  Gemms gemms(bench.stopwatch, shape);
  const double product = gemms.tune(shape, {input_weight.get(), state_weight.get()}, true).microseconds;
  const double step = bench.stopwatch.seconds_of([&](std::size_t) {
    gemms.run(shape,
              {.a = x.get(), .weight = input_weight.get(), .bias = bias.get(), .c = input_gates.get()});
    launch_gather_state(
        {.state = state, .width = hidden, .gathered = gathered.get(), .type = DataType::kBF16},
        bench.stopwatch.stream());
    gemms.run(
        shape,
        {.a = gathered.get(), .weight = state_weight.get(), .bias = bias.get(), .c = state_gates.get()});
    launch_recurrent_cell({.cell = RecurrentCell::kLstm,
                           .state = state,
                           .h_offset = 0,
                           .c_offset = hidden,
                           .input_gates = as<float>(input_gates),
                           .state_gates = as<float>(state_gates),
                           .h = as<float>(h),
                           .rounded_h = rounded.get(),
                           .type = DataType::kBF16,
                           .width = hidden},
                          bench.stopwatch.stream());
  });
  bench.recorder.add({.id = "lstm_step_" + std::to_string(cells),
                      .title = "LSTM step, " + std::to_string(cells) + " cells of 1024, bf16",
                      .value = step * 1e6,
                      .unit = "us",
                      .goal = goal,
                      .details = {{"product_us", product},
                                  {"of_product_rate", 2.0 * static_cast<double>(operations_of(shape)) / step /
                                                          bench.limits.product_rate}}});
}

}  // namespace

void bench_recurrent(Bench& bench) {
  bench_lstm(bench, 64, {});
  bench_lstm(bench, 512, Goal{.at_most = 25.0});
}

}  // namespace troupe::bench
