// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "bench/kernels/cuda/gemms.hpp"
#include "bench/kernels/cuda/probe_kernels.hpp"
#include "bench/kernels/cuda/suite.hpp"

namespace troupe::bench {
namespace {

constexpr double kGiga = 1e9, kTera = 1e12;

double read_rate(const Bench& bench) {
  const std::size_t bytes = bench.pick(std::size_t{4} << 30, std::size_t{1} << 14);
  const DeviceBuffer memory = random_buffer(DataType::kBF16, bytes / 2), sink = device_buffer(4);
  return static_cast<double>(bytes) / bench.stopwatch.seconds_of([&](std::size_t) {
    launch_read({.from = memory.get(), .size_bytes = bytes, .sink = as<std::uint32_t>(sink)},
                bench.stopwatch.stream());
  });
}

double copy_rate(const Bench& bench) {
  const std::size_t bytes = bench.pick(std::size_t{2} << 30, std::size_t{1} << 14);
  const DeviceBuffer from = random_buffer(DataType::kBF16, bytes / 2), to = device_buffer(bytes);
  return 2.0 * static_cast<double>(bytes) / bench.stopwatch.seconds_of([&](std::size_t) {
    CUDA_CHECK(
        cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, bench.stopwatch.stream()));
  });
}

double product_rate(const Bench& bench) {
  const std::uint32_t size = bench.pick(8192U, 64U);
  const cuda::GemmShape shape{.num_tokens = size, .num_outputs = size, .depth = size};
  const DeviceBuffer weight = random_buffer(DataType::kBF16, std::size_t{size} * size);
  const auto best = Gemms(bench.stopwatch, shape).tune(shape, {weight.get()}, true);
  return static_cast<double>(cuda::operations_of(shape)) / best.microseconds * 1e6;
}

// Many pinned blocks of 2 MB, one way.
double link_rate(const Bench& bench, cudaMemcpyKind direction) {
  const std::size_t block = bench.pick(std::size_t{2} << 20, std::size_t{1} << 12);
  const std::size_t num_blocks = bench.pick(std::size_t{256}, std::size_t{2});
  const DeviceBuffer on_device = random_buffer(DataType::kBF16, num_blocks * block / 2);
  const PinnedBuffer on_host = pinned_buffer(num_blocks * block);
  const bool is_to_host = direction == cudaMemcpyDeviceToHost;
  std::byte* to = is_to_host ? on_host.get() : on_device.get();
  const std::byte* from = is_to_host ? on_device.get() : on_host.get();
  const Stream stream;
  std::vector<double> seconds;
  for (int repeat = 0; repeat < bench.pick(6, 2); ++repeat) {
    const double taken = seconds_between_events(stream, [&] {
      for (std::size_t i = 0; i < num_blocks; ++i) {
        CUDA_CHECK(cudaMemcpyAsync(to + i * block, from + i * block, block, direction, stream));
      }
    });
    if (repeat > 0) seconds.push_back(taken);
  }
  return static_cast<double>(num_blocks * block) / median(std::move(seconds));
}

// What a kernel costs inside a graph that does nothing.
double seconds_of_empty_kernel(const Bench& bench) {
  const DeviceBuffer to = device_buffer(16);
  return bench.stopwatch.seconds_of(
      [&](std::size_t) { launch_fill({.to = to.get(), .count = 1}, bench.stopwatch.stream()); });
}

}  // namespace

void measure_limits(Bench& bench) {
  const auto record = [&](const char* id, const char* title, double value, const char* unit) {
    bench.recorder.add({.id = id, .title = title, .value = value, .unit = unit});
  };
  Limits& limits = bench.limits;
  const double read = read_rate(bench);
  record("limit_read", "reading device memory", read / kGiga, "GB/s");
  limits.copy_rate = copy_rate(bench);
  record("limit_copy", "copying device memory, bytes read and written", limits.copy_rate / kGiga, "GB/s");
  limits.read_rate = std::max(read, limits.copy_rate);
  limits.product_rate = product_rate(bench);
  record("limit_product", "cuBLASLt, bf16, 8192 x 8192 x 8192", limits.product_rate / kTera, "TFLOP/s");
  limits.to_device_rate = link_rate(bench, cudaMemcpyHostToDevice);
  record("limit_to_device", "pinned copies of 2 MB, host to device", limits.to_device_rate / kGiga, "GB/s");
  limits.to_host_rate = link_rate(bench, cudaMemcpyDeviceToHost);
  record("limit_to_host", "pinned copies of 2 MB, device to host", limits.to_host_rate / kGiga, "GB/s");
  record("limit_kernel", "a kernel that does next to nothing, in a graph",
         seconds_of_empty_kernel(bench) * 1e6, "us");
}

}  // namespace troupe::bench
