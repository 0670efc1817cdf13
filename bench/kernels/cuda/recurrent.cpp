// SPDX-License-Identifier: Apache-2.0
// A step of BatchMaker's LSTM (its figure 2.3): 512 cells, 1024 wide. Their states
// lie anywhere: h is gathered beside the input, one product makes all gates, and
// the cell finds c by number.
#include <algorithm>
#include <numeric>
#include <random>

#include "bench/kernels/cuda/products.hpp"
#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/kernels/rows/copy_rows.hpp"
#include "gpu/cuda/kernels/rows/recurrent_cell.hpp"

namespace troupe::bench {
namespace {

using namespace troupe::cuda;

std::vector<std::uint32_t> shuffled_rows(std::uint32_t count, std::uint32_t num_states) {
  std::vector<std::uint32_t> rows(num_states);
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), std::minstd_rand(1));
  rows.resize(count);
  return rows;
}

void bench_lstm(Bench& bench, std::uint32_t cells, std::optional<Goal> goal) {
  const std::uint32_t hidden = bench.pick(1024U, 32U), rows = bench.pick(cells, 3U);
  const std::uint32_t num_states = 2 * rows;
  const std::size_t input_size = std::size_t{rows} * 2 * hidden;
  const DeviceBuffer x_h = random_buffer(DataType::kBF16, input_size),
                     weight = random_buffer(DataType::kBF16, std::size_t{8} * hidden * hidden, 0.03F),
                     bias = random_buffer(DataType::kBF16, 4 * hidden),
                     gates = device_buffer(std::size_t{rows} * 4 * hidden * 2),
                     c = random_buffer(DataType::kF32, std::size_t{num_states} * hidden),
                     h = random_buffer(DataType::kBF16, std::size_t{num_states} * hidden),
                     slots = copy_of(shuffled_rows(rows, num_states));
  const ProductShape shape{
      .num_tokens = rows, .num_outputs = 4 * hidden, .depth = 2 * hidden, .has_bias = true};
  const ProductPointers pointers{
      .a = x_h.get(), .weight = weight.get(), .bias = bias.get(), .c = gates.get()};
  Products products(bench.stopwatch, shape);
  const double product = products.tune(shape, {weight.get()}, true).microseconds;
  const std::size_t row_bytes = std::size_t{hidden} * 2;
  const double step = bench.stopwatch.seconds_of([&](std::size_t) {
    launch_copy_rows({.from = h.get(),
                      .from_stride_bytes = row_bytes,
                      .from_rows = as<std::uint32_t>(slots),
                      .to = x_h.get() + row_bytes,
                      .to_stride_bytes = 2 * row_bytes,
                      .num_rows = rows,
                      .row_bytes = static_cast<std::uint32_t>(row_bytes)},
                     bench.stopwatch.stream());
    products.run(shape, pointers);
    launch_recurrent_cell({.cell = RecurrentCell::kLstm,
                           .gates = gates.get(),
                           .gates_stride = 4 * hidden,
                           .c = as<float>(c),
                           .c_stride = hidden,
                           .h = h.get(),
                           .h_stride = hidden,
                           .from = as<std::uint32_t>(slots),
                           .to = as<std::uint32_t>(slots),
                           .type = DataType::kBF16,
                           .num_rows = rows,
                           .hidden = hidden},
                          bench.stopwatch.stream());
  });
  bench.recorder.add({.id = "lstm_step_" + std::to_string(cells),
                      .title = "LSTM step, " + std::to_string(cells) + " cells of 1024, bf16",
                      .value = step * 1e6,
                      .unit = "us",
                      .goal = goal,
                      .details = {{"product_us", product},
                                  {"of_product_rate", static_cast<double>(operations_of(shape)) / step /
                                                          bench.limits.product_rate}}});
}

}  // namespace

void bench_recurrent(Bench& bench) {
  bench_lstm(bench, 64, {});
  bench_lstm(bench, 512, Goal{.at_most = 25.0});
}

}  // namespace troupe::bench
