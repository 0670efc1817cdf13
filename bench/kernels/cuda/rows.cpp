// SPDX-License-Identifier: Apache-2.0
// Operators whose time is that of reading and writing rows; and LayerNorm at
// TurboTransformers' shapes, whose times are held against torch's
// (torch_layer_norm.py), taken in the same way.
#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/kernels/rows/gated_activation.hpp"
#include "gpu/cuda/kernels/rows/layer_norm.hpp"
#include "gpu/cuda/kernels/rows/rms_norm.hpp"

namespace troupe::bench {
namespace {

using namespace troupe::cuda;

constexpr std::uint32_t kBertHidden = 768;

void bench_decoder_rows(Bench& bench) {
  const std::uint32_t rows = bench.pick(16384U, 3U), hidden = bench.pick(4096U, 64U),
                      inner = bench.pick(14336U, 96U);
  const DeviceBuffer x = random_buffer(DataType::kF32, std::size_t{rows} * hidden),
                     residual = random_buffer(DataType::kBF16, std::size_t{rows} * 2 * inner),
                     weight = random_buffer(DataType::kF32, hidden),
                     to = device_buffer(std::size_t{rows} * inner * 2);
  const double norm = bench.stopwatch.seconds_of([&](std::size_t) {
    launch_rms_norm({.x = as<float>(x),
                     .x_stride = hidden,
                     .residual = residual.get(),
                     .residual_stride = hidden,
                     .weight = as<float>(weight),
                     .normed = to.get(),
                     .normed_stride = hidden,
                     .type = DataType::kBF16,
                     .num_rows = rows,
                     .width = hidden},
                    bench.stopwatch.stream());
  });
  const double gated = bench.stopwatch.seconds_of([&](std::size_t) {
    launch_gated_activation({.gate_up = residual.get(),
                             .gate_up_stride = 2 * inner,
                             .h = to.get(),
                             .h_stride = inner,
                             .type = DataType::kBF16,
                             .num_rows = rows,
                             .width = inner},
                            bench.stopwatch.stream());
  });
  const auto record = [&](const char* id, const char* title, double bytes, double seconds) {
    bench.recorder.add({.id = id,
                        .title = title,
                        .value = bytes / seconds / bench.limits.copy_rate,
                        .unit = "of copy bandwidth",
                        .details = {{"us", seconds * 1e6}}});
  };
  record("rms_norm_16384x4096", "RMSNorm with residual, 16384 x 4096",
         double{1} * rows * hidden * (4 + 4 + 2 + 2), norm);
  record("gated_activation_16384x14336", "gated activation, 16384 x 14336", double{1} * rows * inner * 3 * 2,
         gated);
}

// f32, as the paper's. The numbers are those of the title, whatever is tiny.
void bench_layer_norm(Bench& bench, std::uint32_t batch, std::uint32_t length) {
  const std::uint32_t rows = bench.pick(batch * length, 3U), width = bench.pick(kBertHidden, 64U);
  const DeviceBuffer x = random_buffer(DataType::kF32, std::size_t{rows} * width),
                     weight = random_buffer(DataType::kF32, width),
                     bias = random_buffer(DataType::kF32, width),
                     to = device_buffer(std::size_t{rows} * width * 4);
  const double seconds = bench.stopwatch.seconds_of([&](std::size_t) {
    launch_layer_norm({.x = as<float>(x),
                       .weight = as<float>(weight),
                       .bias = as<float>(bias),
                       .normed = as<float>(to),
                       .num_rows = rows,
                       .width = width},
                      bench.stopwatch.stream());
  });
  bench.recorder.add(
      {.id = "layer_norm_" + std::to_string(batch) + "x" + std::to_string(length),
       .title = "LayerNorm, (" + std::to_string(batch) + ", " + std::to_string(length) + ") x 768",
       .value = seconds * 1e6,
       .unit = "us",
       .details = {{"of_copy_bandwidth", 8.0 * rows * width / seconds / bench.limits.copy_rate}}});
}

}  // namespace

void bench_rows(Bench& bench) {
  bench_decoder_rows(bench);
  for (const std::uint32_t batch : {1U, 20U}) {
    for (const std::uint32_t length : {10U, 20U, 40U, 60U, 80U, 100U, 200U, 300U, 400U, 500U}) {
      bench_layer_norm(bench, batch, length);
    }
  }
}

}  // namespace troupe::bench
