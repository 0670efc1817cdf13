// SPDX-License-Identifier: Apache-2.0
// Runs the tests of the kernels on a GPU; without one they are skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstdio>

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    std::printf("skipped, no GPU here: %s\n", cudaGetErrorString(error));
    return kSkipped;
  }
  return doctest::Context(argc, argv).run();
}
