// SPDX-License-Identifier: Apache-2.0
// Measures the CUDA worker's parts on a GPU, each against limits of that GPU taken
// in the same run. Prints a line of JSON a measurement; scripts/gpu-check makes a
// table of them. Ends with status 77 without a GPU.
//
//   bench_cuda [--tiny] [PART …]
#include <cuda_runtime.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "bench/kernels/cuda/suite.hpp"

int main(int argc, char** argv) {
  using namespace troupe::bench;
  constexpr int kSkipped = 77;
  SuiteOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--tiny")
      options.is_tiny = true;
    else
      options.parts.push_back(argument);
  }
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    std::fprintf(stderr, "skipped, no GPU here: %s\n", cudaGetErrorString(error));
    return kSkipped;
  }
  try {
    return run_suite(options, std::cout) ? 0 : 1;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "bench_cuda: %s\n", problem.what());
    return 2;
  }
}
