// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/cuda/probe_kernels.hpp"

#include <limits>

#include "gpu/cuda/kernels/device_clock.cuh"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::bench {

using namespace troupe::cuda;

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kReadsOfThread = 16;  // of 16 bytes
constexpr std::size_t kBlockWords = std::size_t{kThreads} * kReadsOfThread;

__global__ void __launch_bounds__(kThreads) read_kernel(const ReadArguments a) {
  const std::size_t num_words = a.size_bytes / sizeof(uint4);
  const auto* words = static_cast<const uint4*>(a.from);
  const std::size_t first = blockIdx.x * kBlockWords + threadIdx.x;
  unsigned seen = 0;
  const auto see = [&](const uint4& value) { seen ^= value.x ^ value.y ^ value.z ^ value.w; };
  if (first + (kReadsOfThread - 1) * kThreads < num_words) {  // all on their way at once
    uint4 values[kReadsOfThread];
#pragma unroll
    for (unsigned i = 0; i < kReadsOfThread; ++i)
      values[i] = load_vector<uint4>(words + first + i * kThreads);
#pragma unroll
    for (unsigned i = 0; i < kReadsOfThread; ++i) see(values[i]);
  } else {
    for (std::size_t word = first; word < num_words; word += kThreads) see(load_vector<uint4>(words + word));
  }
  if (seen == 0x9E3779B9U) *a.sink = seen;  // so that the compiler keeps the reads
}

// Wang's integer hash.
__device__ __forceinline__ std::uint32_t hash(std::uint32_t x) {
  x = (x ^ 61U) ^ (x >> 16);
  x *= 9U;
  x ^= x >> 4;
  x *= 0x27D4EB2DU;
  return x ^ (x >> 15);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) fill_kernel(const FillArguments a) {
  const std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= a.count) return;
  const std::uint32_t high = hash(static_cast<std::uint32_t>(i >> 32) + a.seed);
  const std::uint32_t bits = hash(static_cast<std::uint32_t>(i) ^ high);
  const float unit = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31F;
  from_float(unit * a.scale, static_cast<T*>(a.to) + i);
}

// False: the host's word has not come for a second.
__device__ __forceinline__ bool wait_for_host(const volatile std::uint64_t* word, std::uint64_t number) {
  constexpr std::uint64_t kSecond = 1000000000;
  const std::uint64_t since = device_time();
  while (*word < number) {
    if (device_time() - since > kSecond) return false;
  }
  return true;
}

__global__ void echo_kernel(const EchoArguments a) {
  volatile std::uint64_t* to = a.to_host;
  for (std::uint64_t number = 1; number <= a.last; ++number) {
    if (!wait_for_host(a.from_host, number)) {
      *to = kGaveUp;
      return;
    }
    *to = number;
  }
}

__global__ void spin_kernel(const SpinArguments a) {
  volatile std::uint64_t* to = a.begun;
  if (!wait_for_host(a.may_begin, a.number)) {
    *to = kGaveUp;
    return;
  }
  // From where the clock moves on: it may stand still for a microsecond.
  const std::uint64_t before = device_time();
  std::uint64_t begin = before;
  while (begin == before) begin = device_time();
  *to = a.number;
  while (device_time() - begin < a.nanoseconds) {
  }
}

}  // namespace

void launch_read(const ReadArguments& arguments, StreamHandle stream) {
  const std::size_t num_words = arguments.size_bytes / sizeof(uint4);
  if (num_words == 0) return;
  launch(read_kernel, {.grid = static_cast<unsigned>(divide_up(num_words, kBlockWords)), .block = kThreads},
         stream, arguments);
}

void launch_fill(const FillArguments& arguments, StreamHandle stream) {
  if (arguments.count == 0) return;
  with_element_type(arguments.type, [&](auto element) {
    launch(
        fill_kernel<decltype(element)>,
        {.grid = static_cast<unsigned>(divide_up(arguments.count, std::size_t{kThreads})), .block = kThreads},
        stream, arguments);
  });
}

void launch_echo(const EchoArguments& arguments, StreamHandle stream) {
  launch(echo_kernel, {.grid = 1, .block = 1}, stream, arguments);
}

void launch_spin(const SpinArguments& arguments, StreamHandle stream) {
  launch(spin_kernel, {.grid = 1, .block = 1}, stream, arguments);
}

}  // namespace troupe::bench
