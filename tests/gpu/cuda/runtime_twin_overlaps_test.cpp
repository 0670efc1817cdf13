// SPDX-License-Identifier: Apache-2.0
// Launches that overlap the kernel before them (programmatic dependent launch) in the twin of
// CUDA's runtime: what each part of a kernel sees, and what is refused.
#include <cuda_runtime.h>

#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "runtime_twin.hpp"
#include "tests/simt/interpreter/kernel_error.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr unsigned kThreads = 32;

template <typename... Parameters, typename... Given>
void launch(void (*kernel)(Parameters...), bool overlaps, unsigned num_blocks, Given... given) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{num_blocks, kThreads, kThreads * 16, nullptr};
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, given...);  // throws
  CHECK(error == cudaSuccess);
}

__global__ void store(int* values, int value) {
  cudaTriggerProgrammaticLaunchCompletion();
  values[blockIdx.x * kThreads + threadIdx.x] = value;
}

__global__ void store_silently(int* values, int value) {
  values[blockIdx.x * kThreads + threadIdx.x] = value;
}

// values: in front of the wait, behind it, and [kThreads] behind a copy that began in front of it.
__global__ void read(const int* values, int* seen, int* sums) {
  const int i = static_cast<int>(threadIdx.x);
  auto* copied = reinterpret_cast<int*>(simt::running_block().dynamic_shared()) + i * 4;
  simt::running_block().begin_copy(copied, values, true);
  simt::running_block().end_copy_group();
  const int early = values[i];
  cudaGridDependencySynchronize();
  simt::running_block().wait_for_copies(0);
  seen[i] = early;
  seen[kThreads + i] = values[i];
  seen[2 * kThreads + i] = copied[0];
  atomicAdd(sums + i, values[i]);
}

__global__ void never_wait(int*) {}
__global__ void wait_for_one_of_two(int*) {
  if (blockIdx.x == 0) cudaGridDependencySynchronize();
}
__global__ void let_start_first(int*) {
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
}
__global__ void store_first(int* values) {
  values[threadIdx.x] = 3;
  cudaGridDependencySynchronize();
}
__global__ void wait_behind_barriers(const int* values, int* seen) {
  __shared__ int first;
  if (threadIdx.x == 0) first = values[0];
  __syncthreads();
  if (threadIdx.x < 8) cudaGridDependencySynchronize();
  __syncthreads();
  if (threadIdx.x >= 8) cudaGridDependencySynchronize();
  seen[threadIdx.x] = first * 10 + values[0];
}

int* ints(std::size_t count, int value) {
  int* values = nullptr;
  OK(cudaMalloc(&values, count * sizeof(int)));
  const std::vector<int> initial(count, value);
  OK(cudaMemcpy(values, initial.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  return values;
}

std::vector<int> host_values(const int* from, std::size_t count) {
  std::vector<int> values(count);
  OK(cudaMemcpy(values.data(), from, count * sizeof(int), cudaMemcpyDeviceToHost));
  return values;
}

// Frees what a test has made.
struct Memory {
  int* values = ints(2 * kThreads, 1);
  int* seen = ints(3 * kThreads, 0);
  int* sums = ints(kThreads, 0);
  ~Memory() {
    for (int* memory : {values, seen, sums}) OK(cudaFree(memory));
  }
};

std::string error_of(void (*kernel)(int*), unsigned num_blocks = 1) {
  const Memory memory;
  launch(store, false, 1U, memory.values, 2);
  try {
    launch(kernel, true, num_blocks, memory.values);
  } catch (const simt::KernelError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<int> all(std::size_t count, int value) { return std::vector<int>(count, value); }

}  // namespace

TEST_CASE("overlaps: a block sees the kernel before it only behind its wait") {
  const Memory memory;
  simt::set_order(1);
  launch(store, false, 2U, memory.values, 2);
  launch(read, true, 3U, memory.values, memory.seen, memory.sums);
  simt::set_order(0);
  CHECK(host_values(memory.seen, kThreads) == all(kThreads, 1));
  CHECK(host_values(memory.seen + kThreads, kThreads) == all(kThreads, 2));
  CHECK(host_values(memory.seen + 2 * kThreads, kThreads) == all(kThreads, 1));
  // What the blocks of one kernel add up is kept while stores of the one before are hidden again.
  CHECK(host_values(memory.sums, kThreads) == all(kThreads, 6));
}

TEST_CASE("overlaps: another launch, and one behind a copy, sees the kernel before it at once") {
  const Memory memory;
  launch(store, false, 1U, memory.values, 2);
  launch(read, false, 1U, memory.values, memory.seen, memory.sums);
  CHECK(host_values(memory.seen, kThreads) == all(kThreads, 2));
  launch(store, false, 1U, memory.values, 3);
  OK(cudaMemset(memory.sums, 0, sizeof(int)));
  launch(read, true, 1U, memory.values, memory.seen, memory.sums);
  CHECK(host_values(memory.seen, kThreads) == all(kThreads, 3));
}

TEST_CASE("overlaps: threads wait in front of barriers and behind them") {
  const Memory memory;
  launch(store, false, 1U, memory.values, 2);
  launch(wait_behind_barriers, true, 1U, memory.values, memory.seen);
  CHECK(host_values(memory.seen, kThreads) == all(kThreads, 12));
}

TEST_CASE("overlaps: a thread that never waits, starts the next one first or stores first is found") {
  CHECK(error_of(never_wait) ==
        "block (0, 0, 0): thread 0 has ended without waiting for the kernel before, which the launch "
        "overlaps");
  CHECK(error_of(wait_for_one_of_two, 2).starts_with("block (1, 0, 0): thread 0 has ended without waiting"));
  CHECK(error_of(let_start_first) ==
        "block (0, 0, 0): lets the next kernel start before it has waited for the one before");
  CHECK(error_of(store_first) ==
        "block (0, 0, 0): stored where the kernel before it does, without waiting for it");
}

TEST_CASE("overlaps: they count where the kernel before has let the next one start") {
  const Memory memory;
  const std::uint64_t before = simt::kernels_overlapped();
  launch(store, false, 1U, memory.values, 2);
  launch(read, true, 1U, memory.values, memory.seen, memory.sums);
  CHECK(simt::kernels_overlapped() == before + 1);
  launch(store_silently, false, 1U, memory.values, 2);
  launch(read, true, 1U, memory.values, memory.seen, memory.sums);
  launch(store, false, 1U, memory.values, 2);
  launch(read, false, 1U, memory.values, memory.seen, memory.sums);
  CHECK(simt::kernels_overlapped() == before + 1);
}

TEST_CASE("overlaps: kernels of different carve-outs of shared memory count") {
  const Memory memory;
  const std::uint64_t before = simt::carveout_changes();
  OK(cudaFuncSetAttribute(store_silently, cudaFuncAttributePreferredSharedMemoryCarveout,
                          cudaSharedmemCarveoutMaxShared));
  launch(store, false, 1U, memory.values, 2);
  launch(store, false, 1U, memory.values, 2);
  CHECK(simt::carveout_changes() == before);
  launch(store_silently, false, 1U, memory.values, 2);
  CHECK(simt::carveout_changes() == before + 1);
}
