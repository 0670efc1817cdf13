// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/interpreter/launch.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "tests/simt/interpreter/compiled_kernels.hpp"
#include "tests/simt/interpreter/kernel_error.hpp"
#include "tests/simt/interpreter/weak_memory.hpp"

dim3 blockDim, gridDim;
uint3 threadIdx, blockIdx;

namespace troupe::simt {
namespace {

// CUDA C++ Programming Guide, "Compute Capabilities".
constexpr std::size_t kMaxThreads = 1024;
constexpr unsigned kMaxGridX = 2147483647;
constexpr unsigned kMaxGridYZ = 65535;
constexpr std::size_t kMaxShared = 227 * 1024;
constexpr std::size_t kSharedWithoutAsking = 48 * 1024;
constexpr std::size_t kRegisters = 65536;      // of a multiprocessor
constexpr std::size_t kRegistersAtOnce = 256;  // a warp's are a multiple

std::atomic<std::uint64_t> order_seed = 0;
std::mutex allowed_shared_mutex;
std::map<const void*, std::size_t> allowed_shared;
std::map<const void*, int> shared_carveouts;  // with the same mutex
FiberPool fibers;                             // outlives the thread of the runtime, which is made later

std::string text_of(Index3 size) {
  return "(" + std::to_string(size.x) + ", " + std::to_string(size.y) + ", " + std::to_string(size.z) + ")";
}

std::size_t static_shared(const void* kernel) {
  const auto compiled = compiled_kernel(kernel);
  return compiled ? compiled->static_shared_bytes : 0;
}

// The most dynamic memory: what was asked for or, with the kernel's static memory, 48 KiB.
std::size_t most_shared(const void* kernel) {
  const std::size_t of_kernel = static_shared(kernel);
  const std::lock_guard lock(allowed_shared_mutex);
  const auto allowed = allowed_shared.find(kernel);
  if (allowed != allowed_shared.end()) return allowed->second;
  return kSharedWithoutAsking - std::min(kSharedWithoutAsking, of_kernel);
}

void check_registers(const void* kernel, std::size_t threads) {
  const auto compiled = compiled_kernel(kernel);
  if (!compiled) return;
  const std::size_t of_warp =
      (32 * compiled->registers + kRegistersAtOnce - 1) / kRegistersAtOnce * kRegistersAtOnce;
  const std::size_t needed = (threads + 31) / 32 * of_warp;
  if (needed <= kRegisters) return;
  throw KernelError("launch: " + std::to_string(threads) + " threads of " +
                    std::to_string(compiled->registers) + " registers need " + std::to_string(needed) +
                    ", there are " + std::to_string(kRegisters));
}

Index3 block_at(std::size_t number, Index3 grid) {
  return {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
          static_cast<unsigned>(number / grid.x / grid.y)};
}

}  // namespace

void check_launch(const LaunchConfig& config) {
  const auto& [grid, block, shared_bytes, kernel, overlaps_previous] = config;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kMaxGridX || grid.y > kMaxGridYZ ||
      grid.z > kMaxGridYZ) {
    throw KernelError("launch: a grid of " + text_of(grid) + " blocks; each size must be 1 to " +
                      "2147483647, 65535, 65535");
  }
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads || block.z > 64) {
    throw KernelError("launch: blocks of " + text_of(block) + " threads; there may be 1 to 1024");
  }
  check_registers(kernel, threads);
  const std::size_t most = most_shared(kernel);
  if (shared_bytes > most) {
    throw KernelError("launch: " + std::to_string(shared_bytes) +
                      " bytes of dynamic shared memory; this kernel may have " + std::to_string(most));
  }
}

bool run_grid(const LaunchConfig& config, const std::function<void()>& body, HiddenStores* previous_stores) {
  check_launch(config);
  const Index3 grid = config.grid, block = config.block;
  gridDim = dim3(grid.x, grid.y, grid.z);
  blockDim = dim3(block.x, block.y, block.z);
  std::vector<std::size_t> numbers(std::size_t{grid.x} * grid.y * grid.z);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::uint64_t seed = order_seed;
  if (seed != 0) {
    std::shuffle(numbers.begin(), numbers.end(), std::minstd_rand(static_cast<unsigned>(seed)));
  }
  bool lets_next_start = false;
  WeakMemory* const weak = weak_memory();
  if (weak != nullptr) weak->begin_kernel();
  BlockRun run({.fibers = &fibers,
                .block_size = block,
                .dynamic_shared_bytes = config.dynamic_shared_bytes,
                .seed = seed,
                .overlaps_previous = config.overlaps_previous,
                .previous_stores = previous_stores,
                .set_thread = [](Index3 thread) {
                  threadIdx = {thread.x, thread.y, thread.z};
                }});
  for (const std::size_t number : numbers) {
    const Index3 index = block_at(number, grid);
    blockIdx = {index.x, index.y, index.z};
    if (weak != nullptr) weak->begin_block();
    run.run(index, body);
    if (weak != nullptr) weak->end_block();
    lets_next_start = lets_next_start || run.lets_next_kernel_start();
  }
  if (weak != nullptr) weak->end_kernel();
  return lets_next_start;
}

void allow_dynamic_shared(const void* kernel, std::size_t size_bytes) {
  const std::size_t all_bytes = size_bytes + static_shared(kernel);
  if (all_bytes > kMaxShared) {
    throw KernelError("a block has at most " + std::to_string(kMaxShared) + " bytes of shared memory, " +
                      std::to_string(all_bytes) + " are asked for");
  }
  const std::lock_guard lock(allowed_shared_mutex);
  allowed_shared[kernel] = size_bytes;
}

void prefer_shared_carveout(const void* kernel, int percent) {
  const std::lock_guard lock(allowed_shared_mutex);
  shared_carveouts[kernel] = percent;
}

int shared_carveout(const void* kernel) {
  const std::lock_guard lock(allowed_shared_mutex);
  const auto found = shared_carveouts.find(kernel);
  return found == shared_carveouts.end() ? -1 : found->second;
}

void set_order(std::uint64_t seed) { order_seed = seed; }
std::uint64_t order() { return order_seed; }

void check_aligned(const void* address, std::size_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment == 0) return;
  throw KernelError("access of " + std::to_string(alignment) + " bytes at an address that is " +
                    std::to_string(reinterpret_cast<std::uintptr_t>(address) % alignment) + " bytes off");
}

}  // namespace troupe::simt
