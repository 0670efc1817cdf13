// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/cuda/suite.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>

namespace troupe::bench {
namespace {

std::string version(int number) {  // 13000 is 13.0
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

void record_device(Recorder& recorder) {
  int ordinal = 0, driver = 0, runtime = 0;
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDevice(&ordinal));
  CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  recorder.device(
      {{"name", properties.name},
       {"compute_capability", std::to_string(properties.major) + "." + std::to_string(properties.minor)},
       {"multiprocessors", std::to_string(properties.multiProcessorCount)},
       {"memory_gib", std::to_string(properties.totalGlobalMem >> 30)},
       {"l2_mib", std::to_string(properties.l2CacheSize >> 20)},
       {"driver_speaks_cuda", version(driver)},
       {"runtime", version(runtime)}});
}

}  // namespace

std::string times(std::size_t left, std::size_t right) {
  return std::to_string(left) + " x " + std::to_string(right);
}

std::vector<Part> all_parts() {
  return {{"limits", measure_limits},
          {"attention", bench_attention},
          {"products", bench_gemms},
          {"fused_products", bench_fused_gemms},
          {"rows", bench_rows},
          {"sampling", bench_sampling},
          {"recurrent", bench_recurrent},
          {"convolutions", bench_convolutions},
          {"completion", bench_completion},
          {"page_copies", bench_page_copies}};
}

bool run_suite(const SuiteOptions& options, std::ostream& lines) {
  const auto parts = all_parts();
  for (const auto& name : options.parts) {
    if (std::none_of(parts.begin(), parts.end(), [&](const auto& p) { return p.name == name; }))
      throw std::invalid_argument("there is no part \"" + name + "\"");
  }
  Recorder recorder(lines, options.is_tiny);
  record_device(recorder);
  Stopwatch stopwatch(options.is_tiny);
  Bench bench{.is_tiny = options.is_tiny, .recorder = recorder, .stopwatch = stopwatch};
  bool all_ran = true;
  for (const auto& part : parts) {
    const auto& wanted = options.parts;
    if (!wanted.empty() && part.name != "limits" &&
        std::find(wanted.begin(), wanted.end(), part.name) == wanted.end()) {
      continue;
    }
    try {
      part.run(bench);
    } catch (const std::exception& error) {
      recorder.add_not_run(part.name, error.what());
      all_ran = false;
    }
  }
  return all_ran;
}

}  // namespace troupe::bench
