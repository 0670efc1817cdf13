// SPDX-License-Identifier: Apache-2.0
// Memory in which a block sees others' stores behind fences only.
#include "tests/simt/interpreter/weak_memory.hpp"

#include <cuda_runtime.h>

#include <doctest/doctest.h>

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tests/simt/interpreter/kernel_error.hpp"
#include "tests/simt/interpreter/launch.hpp"

using namespace troupe;

namespace {

constexpr unsigned kBlocks = 4;

// The block that comes last adds up what all have stored.
__global__ void sum_of_all(int* parts, unsigned* counter, int* sum, bool fences_stores, bool fences_loads) {
  parts[blockIdx.x] = static_cast<int>(blockIdx.x) + 1;
  if (fences_stores) __threadfence();
  if (atomicAdd(counter, 1U) != gridDim.x - 1) return;
  if (fences_loads) __threadfence();
  *sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) *sum += parts[i];
}

__global__ void fence_too_late(int* value, unsigned* flag) {
  *value = 2;
  atomicExch(flag, 1U);
  __threadfence();
}

struct Summed {
  int sum = 0;
  std::vector<int> parts;  // behind the kernel
};

Summed summed(bool fences_stores, bool fences_loads) {
  std::vector<int> parts(kBlocks, 100);
  unsigned counter = 0;
  int sum = -1;
  const simt::WeakMemory weak(std::as_writable_bytes(std::span(parts)));
  const cudaLaunchConfig_t config{kBlocks, 1, 0, nullptr};
  CHECK(cudaLaunchKernelEx(&config, sum_of_all, parts.data(), &counter, &sum, fences_stores, fences_loads) ==
        cudaSuccess);
  return {.sum = sum, .parts = parts};
}

}  // namespace

TEST_CASE("weak memory: a block sees what others have fenced, behind a fence of its own") {
  simt::in_several_orders([] {
    CHECK(summed(true, true).sum == 1 + 2 + 3 + 4);
    for (const bool fences_stores : {false, true}) {
      const int sum = summed(fences_stores, !fences_stores).sum;
      CHECK(sum > 3 * 100);  // the others' are what they were
    }
  });
}

TEST_CASE("weak memory: behind the kernel all stores are there, fenced or not") {
  for (const bool fences : {false, true}) {
    const Summed result = summed(fences, fences);
    CHECK(result.parts == std::vector<int>{1, 2, 3, 4});
  }
}

TEST_CASE("weak memory: a fence behind the atomic operation comes too late for others") {
  int value = 1;
  unsigned flag = 0;
  const simt::WeakMemory weak(std::as_writable_bytes(std::span(&value, 1)));
  const cudaLaunchConfig_t config{1, 1, 0, nullptr};
  CHECK(cudaLaunchKernelEx(&config, fence_too_late, &value, &flag) == cudaSuccess);
  CHECK(value == 2);
  CHECK(weak.seen_by_others().front() == std::byte{1});
}

TEST_CASE("weak memory: there is one at a time") {
  int value = 0;
  const simt::WeakMemory weak(std::as_writable_bytes(std::span(&value, 1)));
  CHECK_THROWS_AS(simt::WeakMemory(std::as_writable_bytes(std::span(&value, 1))), simt::KernelError);
}
