// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "bench/kernels/cuda/suite.hpp"
#include "gpu/cuda/kernels/sampling/sample.hpp"

namespace troupe::bench {

using namespace troupe::cuda;

void bench_sampling(Bench& bench) {
  const std::uint32_t num_rows = bench.pick(64U, 2U), vocabulary = bench.pick(128256U, 50U);
  const std::size_t count = std::size_t{num_rows} * vocabulary;
  const DeviceBuffer given = random_buffer(DataType::kF32, count, 8.0F), logits = device_buffer(count * 4),
                     ids = device_buffer(num_rows * sizeof(std::int32_t));
  const auto copy = [&] {  // sampling overwrites them
    CUDA_CHECK(cudaMemcpyAsync(logits.get(), given.get(), count * 4, cudaMemcpyDeviceToDevice,
                               bench.stopwatch.stream()));
  };
  const double alone = bench.stopwatch.seconds_of([&](std::size_t) { copy(); });
  struct Kind {
    const char *id, *title;
    SamplingParameters parameters;
    std::optional<Goal> goal = {};
  };
  for (const auto& kind : {Kind{"sample_greedy", "greedy", {.temperature = 0.0F}},
                           Kind{"sample_temperature", "temperature 1", {}},
                           Kind{"sample_top_p", "top_p 0.9", {.top_p = 0.9F}, Goal{.at_most = 60.0}},
                           Kind{"sample_top_k_top_p", "top_k 40, top_p 0.9", {.top_p = 0.9F, .top_k = 40}}}) {
    std::vector<SampleRow> rows(num_rows);
    for (auto& row : rows) row.parameters = kind.parameters;
    const DeviceBuffer row_memory = copy_of(rows);
    const double both = bench.stopwatch.seconds_of([&](std::size_t) {
      copy();
      launch_sample({.logits = as<float>(logits),
                     .logits_stride = vocabulary,
                     .vocabulary = vocabulary,
                     .rows = as<SampleRow>(row_memory),
                     .token_ids = as<std::int32_t>(ids),
                     .num_rows = num_rows},
                    bench.stopwatch.stream());
    });
    const double seconds = both - alone;
    bench.recorder.add({.id = kind.id,
                        .title = std::string("sampling 64 rows of 128,256 logits, ") + kind.title,
                        .value = seconds * 1e6,
                        .unit = "us",
                        .goal = kind.goal,
                        .details = {{"of_read_bandwidth",
                                     4.0 * static_cast<double>(count) / seconds / bench.limits.read_rate}}});
  }
}

}  // namespace troupe::bench
