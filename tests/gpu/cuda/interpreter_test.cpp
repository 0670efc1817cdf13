// SPDX-License-Identifier: Apache-2.0
// The SIMT interpreter itself: kernels as they are written for a GPU, and
// kernels with the faults it exists to find.
#include <cuda_runtime.h>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "tests/simt/interpreter/compiled_kernels.hpp"
#include "tests/simt/interpreter/kernel_error.hpp"
#include "tests/simt/interpreter/launch.hpp"
#include "tests/support/sanitizers.hpp"

using namespace troupe;

namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;

template <typename... Parameters, typename... Given>
void run(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, Given... given) {
  const cudaLaunchConfig_t config{grid, block, shared_bytes, nullptr};
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, given...);  // throws
  CHECK(error == cudaSuccess);
}

template <typename Launch>
std::string error_of(Launch launch) {
  try {
    launch();
  } catch (const simt::KernelError& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

__global__ void sum_blocks(const int* values, int count, int* sums) {
  __shared__ int of_warps[32];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int sum = i < count ? values[i] : 0;
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(kAll, sum, static_cast<unsigned>(distance));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += of_warps[warp];
  sums[blockIdx.x] = sum;
}

// Hillis and Steele's scan over one block.
__global__ void scan_block(int* values) {
  __shared__ int before[1024];
  const unsigned i = threadIdx.x;
  for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
    before[i] = values[i];
    __syncthreads();
    if (i >= distance) values[i] += before[i - distance];
    __syncthreads();
  }
}

__global__ void sort_lanes(unsigned* of_lanes) {
  const unsigned lane = threadIdx.x;
  of_lanes[lane] = __ballot_sync(kAll, lane % 3 == 0);
  of_lanes[32 + lane] = static_cast<unsigned>(__any_sync(kAll, lane == 7)) +
                        2U * static_cast<unsigned>(__all_sync(kAll, lane < 31));
  of_lanes[64 + lane] = __match_any_sync(kAll, lane / 8);
  of_lanes[96 + lane] = __shfl_sync(kAll, lane, static_cast<int>(lane + 1), 8);
  of_lanes[128 + lane] = __shfl_up_sync(kAll, lane, 2, 16);
  of_lanes[160 + lane] = __shfl_xor_sync(kAll, lane, 9, 16);
  of_lanes[192 + lane] = __reduce_max_sync(kAll, (lane * 7) % 32);
}

__global__ void count_with_barriers(int* counts) {
  counts[threadIdx.x] = __syncthreads_count(threadIdx.x % 4 == 0) +
                        100 * __syncthreads_or(threadIdx.x == 40) +
                        1000 * __syncthreads_and(threadIdx.x < 1000);
}

__global__ void halves_of_a_warp(int* results) {
  const unsigned mask = threadIdx.x < 16 ? 0x0000FFFFU : 0xFFFF0000U;
  int value = static_cast<int>(threadIdx.x);
  for (unsigned i = 0; i <= threadIdx.x / 16; ++i) value = __shfl_xor_sync(mask, value, 1, 16);
  results[threadIdx.x] = value;
}

__global__ void count_atomically(unsigned* counters, float* sum) {
  atomicAdd(&counters[0], 1U);
  atomicMax(&counters[1], threadIdx.x + blockIdx.x);
  atomicMin(&counters[2], threadIdx.x + blockIdx.x);
  if (atomicCAS(&counters[3], 0U, threadIdx.x + 1) == 0U) atomicAdd(&counters[4], 1U);
  atomicAdd(sum, 0.5F);
}

__global__ void some_leave_early(int* out) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void two_barriers(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

__global__ void barrier_against_shuffle(int* out) {
  if (threadIdx.x < 31) __syncthreads();
  out[threadIdx.x] = __shfl_xor_sync(kAll, 1, 1);
}

__global__ void reads_absent_lane(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_down_sync(0x0000FFFFU, 1, 4);
}

__global__ void names_ended_lane(int* out) {
  if (threadIdx.x == 5) return;
  out[threadIdx.x] = __any_sync(kAll, 1);
}

#if defined(TROUPE_ASAN)
__global__ void votes(int* out) { out[threadIdx.x] = __any_sync(kAll, 1); }
#endif

__global__ void votes_outside_mask(int* out) { out[threadIdx.x] = __any_sync(0x0000FFFFU, 1); }

__global__ void trusts_activemask(int* out) {
  if (threadIdx.x < 8) out[threadIdx.x] = __any_sync(__activemask(), 1);
  __syncwarp();
}

__global__ void reads_misaligned(const float* from, float* to) {
  to[0] = __ldg(reinterpret_cast<const float4*>(from + 1)).x;
}

__global__ void copies_misaligned(const float* from, float* to) {
  to[0] = reinterpret_cast<const float4*>(from + 1)->x;  // Clang 19 checks no copy of a whole struct
}

// The barrier between writing and reading is missing.
__global__ void reverses_with_a_race(int* values) {
  __shared__ int shared[64];
  shared[threadIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = shared[63 - threadIdx.x];
}

// Right among the lanes of a warp in lockstep, wrong since Volta.
__global__ void lacks_syncwarp(int* values) {
  __shared__ int shared[32];
  shared[threadIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = shared[(threadIdx.x + 31) % 32];
}

__global__ void writes_behind_shared(int count) {
  auto* shared = reinterpret_cast<int*>(simt::running_block().dynamic_shared());
  for (int i = 0; i < count; ++i) shared[i] = i;
}

__global__ void notes_indices(unsigned* seen) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  seen[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1;
}

}  // namespace

TEST_CASE("simt: a block's sum over shuffles and shared memory, in every order") {
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 1);
  simt::in_several_orders([&] {
    std::vector<int> sums(4);
    run(sum_blocks, 4, 256, 0, static_cast<const int*>(values.data()), 1000, sums.data());
    CHECK(std::accumulate(sums.begin(), sums.end(), 0) == 500500);
    CHECK(sums[0] == 256 * 257 / 2);
  });
}

TEST_CASE("simt: a scan with two barriers a step") {
  simt::in_several_orders([] {
    std::vector<int> values(1000, 1), expected(1000);
    std::iota(expected.begin(), expected.end(), 1);
    run(scan_block, 1, 1000, 0, values.data());
    CHECK(values == expected);
  });
}

TEST_CASE("simt: votes, matches and shuffles give every lane its own result") {
  simt::in_several_orders([] {
    std::vector<unsigned> of_lanes(224);
    run(sort_lanes, 1, 32, 0, of_lanes.data());
    for (unsigned lane = 0; lane < 32; ++lane) {
      CHECK(of_lanes[lane] == 0x49249249U);
      CHECK(of_lanes[32 + lane] == 1U);
      CHECK(of_lanes[64 + lane] == 0xFFU << lane / 8 * 8);
      CHECK(of_lanes[96 + lane] == lane / 8 * 8 + (lane + 1) % 8);
      CHECK(of_lanes[128 + lane] == (lane % 16 < 2 ? lane : lane - 2));
      CHECK(of_lanes[160 + lane] == (lane ^ 9U));
      CHECK(of_lanes[192 + lane] == 31U);
    }
  });
}

TEST_CASE("simt: the halves of a warp may shuffle apart from each other") {
  simt::in_several_orders([] {
    std::vector<int> results(32);
    run(halves_of_a_warp, 1, 32, 0, results.data());
    for (int lane = 0; lane < 32; ++lane) CHECK(results[lane] == (lane < 16 ? lane ^ 1 : lane));
  });
}

TEST_CASE("simt: barriers count, and, or") {
  std::vector<int> counts(64);
  run(count_with_barriers, 1, 64, 0, counts.data());
  CHECK(counts == std::vector<int>(64, 1116));
}

TEST_CASE("simt: atomics of all blocks meet in global memory") {
  simt::in_several_orders([] {
    std::vector<unsigned> counters{0, 0, 1000, 0, 0};
    float sum = 0.0F;
    run(count_atomically, 10, 50, 0, counters.data(), &sum);
    CHECK(counters[0] == 500);
    CHECK(counters[1] == 58);
    CHECK(counters[2] == 0);
    CHECK(counters[3] != 0);
    CHECK(counters[4] == 1);
    CHECK(sum == 250.0F);
  });
}

TEST_CASE("simt: every thread of every block runs once, in three dimensions") {
  simt::in_several_orders([] {
    std::vector<unsigned> seen(2 * 3 * 2 * 4 * 3 * 5);
    run(notes_indices, dim3(2, 3, 2), dim3(4, 3, 5), 0, seen.data());
    CHECK(seen == std::vector<unsigned>(seen.size(), 1));
  });
}

TEST_CASE("simt: a barrier that some threads never reach is an error that names them") {
  std::vector<int> out(64);
  const auto text = error_of([&] { run(some_leave_early, 1, 64, 0, out.data()); });
  CHECK(contains(text, "block (0, 0, 0): threads wait for each other: "));
  CHECK(contains(text, "threads 0-39: __syncthreads at interpreter_test.cpp:"));
  CHECK(contains(text, "threads 40-63: ended"));
}

TEST_CASE("simt: threads at two barriers of the source are an error") {
  std::vector<int> out(64);
  const auto text = error_of([&] { run(two_barriers, 1, 64, 0, out.data()); });
  CHECK(contains(text, "threads 0-31: __syncthreads at interpreter_test.cpp:"));
  CHECK(contains(text, "; threads 32-63: __syncthreads at interpreter_test.cpp:"));
}

TEST_CASE("simt: a lane at a shuffle while the rest is at a barrier is an error") {
  std::vector<int> out(32);
  const auto text = error_of([&] { run(barrier_against_shuffle, 1, 32, 0, out.data()); });
  CHECK(contains(text, "threads 0-30: __syncthreads"));
  CHECK(contains(text, "thread 31: __shfl_xor_sync at interpreter_test.cpp:"));
  CHECK(contains(text, "with mask 0xffffffff"));
}

TEST_CASE("simt: masks must name the lanes that come") {
  std::vector<int> out(32);
  CHECK(contains(error_of([&] { run(reads_absent_lane, 1, 32, 0, out.data()); }),
                 "lane 12 reads lane 16, which takes no part"));
  CHECK(contains(error_of([&] { run(names_ended_lane, 1, 32, 0, out.data()); }),
                 "waits for lane 5, which has ended"));
  CHECK(contains(error_of([&] { run(names_ended_lane, 1, 5, 0, out.data()); }),
                 "waits for lane 5, which does not exist"));
  CHECK(contains(error_of([&] { run(votes_outside_mask, 1, 32, 0, out.data()); }),
                 "lane 16 is not in its own mask 0x0000ffff"));
  CHECK(contains(error_of([&] { run(trusts_activemask, 1, 32, 0, out.data()); }), "threads 0-7: __any_sync"));
}

TEST_CASE("simt: a vector must lie on a multiple of its size") {
  alignas(16) float values[8] = {};
  const auto text =
      error_of([&] { run(reads_misaligned, 1, 1, 0, static_cast<const float*>(values), values); });
  CHECK(contains(text, "access of 16 bytes at an address that is 4 bytes off"));
}

#if !defined(TROUPE_ASAN)
TEST_CASE("simt: a struct must lie on a multiple of its alignment, however it is read") {
  alignas(16) float values[8] = {};
  const auto text =
      error_of([&] { run(copies_misaligned, 1, 1, 0, static_cast<const float*>(values), values); });
  CHECK(contains(text, "interpreter_test.cpp:"));
  CHECK(contains(text, "must lie on a multiple of 16 bytes, at an address that is 4 bytes off"));
  CHECK(error_of([&] { run(copies_misaligned, 1, 1, 0, static_cast<const float*>(values) + 3, values); }) ==
        "no error");
}
#endif

TEST_CASE("simt: a missing barrier gives other results in some order") {
  const auto wrong_orders = [](auto kernel, unsigned threads, auto expected) {
    int wrong = 0;
    simt::in_several_orders([&] {
      std::vector<int> values(threads);
      std::iota(values.begin(), values.end(), 0);
      run(kernel, 1, threads, 0, values.data());
      for (unsigned i = 0; i < threads; ++i) {
        if (values[i] != static_cast<int>(expected(i))) {
          ++wrong;
          return;
        }
      }
    });
    return wrong;
  };
  CHECK(wrong_orders(reverses_with_a_race, 64, [](unsigned i) { return 63 - i; }) > 0);
  CHECK(wrong_orders(lacks_syncwarp, 32, [](unsigned i) { return (i + 31) % 32; }) > 0);
}

#if defined(TROUPE_ASAN)
TEST_CASE("simt: the sanitizer ends a program whose kernel leaves its memory") {
  const auto dies = [](auto launch) {
    const pid_t child = fork();
    if (child == 0) {
      close(STDERR_FILENO);  // the report is long
      launch();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  };
  CHECK_FALSE(dies([] { run(writes_behind_shared, 1, 1, 40, 10); }));
  CHECK(dies([] { run(writes_behind_shared, 1, 1, 40, 11); }));
  std::vector<int> out(31);
  CHECK(dies([&] { run(votes, 1, 32, 0, out.data()); }));
  alignas(16) float values[8] = {};
  CHECK(dies([&] { run(copies_misaligned, 1, 1, 0, static_cast<const float*>(values), values); }));
}
#else
TEST_CASE("simt: writes behind dynamic shared memory are found at the block's end") {
  CHECK(error_of([&] { run(writes_behind_shared, 1, 1, 40, 10); }) == "no error");
  CHECK(contains(error_of([&] { run(writes_behind_shared, 1, 1, 40, 11); }),
                 "wrote behind its 40 bytes of dynamic shared memory"));
}
#endif

TEST_CASE("simt: static and dynamic shared memory add up, and registers bound the threads") {
  std::vector<int> out(64);
  const auto* const kernel = reinterpret_cast<const void*>(&writes_behind_shared);
  const auto launch = [&](unsigned threads, std::size_t shared_bytes) {
    return error_of([&] { run(writes_behind_shared, 1, threads, shared_bytes, 1); });
  };
  simt::set_compiled_kernel(kernel, {.registers = 65, .static_shared_bytes = 1024});
  CHECK(launch(1, 47 * 1024) == "no error");
  CHECK(contains(launch(1, 47 * 1024 + 1), "this kernel may have 48128"));
  CHECK(contains(error_of([&] { simt::allow_dynamic_shared(kernel, 226 * 1024 + 1); }),
                 "232449 are asked for"));
  CHECK(contains(launch(1024, 40), "1024 threads of 65 registers need 73728, there are 65536"));
  CHECK(launch(896, 40) == "no error");
  simt::set_compiled_kernel(kernel, {});
}

#if defined(TROUPE_ASAN)
// Each test is a process of its own, so each would read all of its program: 20 to 70 MB under this sanitizer.
TEST_CASE("simt: the first launch looks its kernel up in no time") {
  const std::clock_t begin = std::clock();
  CHECK(error_of([&] { run(writes_behind_shared, 1, 1, 40, 10); }) == "no error");
  CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 0.5);
}
#endif

TEST_CASE("simt: a launch that a GPU refuses is an error") {
  std::vector<int> out(64);
  CHECK(
      contains(error_of([&] { run(some_leave_early, 0, 64, 0, out.data()); }), "a grid of (0, 1, 1) blocks"));
  CHECK(contains(error_of([&] { run(some_leave_early, dim3(1, 70000), 64, 0, out.data()); }),
                 "a grid of (1, 70000, 1) blocks"));
  CHECK(contains(error_of([&] { run(some_leave_early, 1, 1025, 0, out.data()); }),
                 "blocks of (1025, 1, 1) threads; there may be 1 to 1024"));
  CHECK(contains(error_of([&] { run(writes_behind_shared, 1, 1, 48 * 1024 + 1, 1); }),
                 "49153 bytes of dynamic shared memory; this kernel may have 49152"));
  cudaFuncSetAttribute(writes_behind_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  CHECK(error_of([&] { run(writes_behind_shared, 1, 1, 65536, 1); }) == "no error");
  CHECK(contains(error_of([] {
                   cudaFuncSetAttribute(writes_behind_shared, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        300000);
                 }),
                 "at most 232448 bytes of shared memory, 300000 are asked for"));
}

TEST_CASE("simt: after an error the next launch starts afresh") {
  std::vector<int> out(64);
  CHECK(error_of([&] { run(some_leave_early, 1, 64, 0, out.data()); }) != "no error");
  CHECK(error_of([&] { run(some_leave_early, 1, 40, 0, out.data()); }) == "no error");
  CHECK(std::accumulate(out.begin(), out.end(), 0) == 40);
}
