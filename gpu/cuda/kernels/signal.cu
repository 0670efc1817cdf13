// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/signal.hpp"

#include "gpu/cuda/kernels/device_clock.cuh"
#include "gpu/cuda/kernels/launch.cuh"

#ifdef TROUPE_SIMT
#include <atomic>
#endif

namespace troupe::cuda {
namespace {

constexpr unsigned kSignalThreads = 128;

// The host's thread polls the word. A barrier comes before: the fence is for the stores of all threads that
// came to it (PTX ISA, "Memory Consistency Model": causality order goes through the barrier).
__device__ void store_for_host(std::uint64_t* address, std::uint64_t value) {
  __threadfence_system();
#ifdef TROUPE_SIMT
  simt::perform_atomic();
  std::atomic_ref(*address).store(value, std::memory_order_release);
#else
  *static_cast<volatile std::uint64_t*>(address) = value;
#endif
}

// All lanes of a warp.
__device__ __forceinline__ void copy_row(const RowLogprobs& from, RowLogprobs& to) {
  const unsigned lane = threadIdx.x % kWarpLanes;
  if (lane == 0) to.logprob = from.logprob;
  if (lane == 0) to.num_top = from.num_top;
  if (lane < from.num_top) to.top[lane] = from.top[lane];
}
static_assert(kMaxTopLogprobs <= kWarpLanes);

__global__ void __launch_bounds__(kSignalThreads) signal_kernel(const SignalArguments a) {
  if (a.began != nullptr && threadIdx.x == 0) *a.host_nanoseconds = device_time() - *a.began;
  for (unsigned i = threadIdx.x; i < a.num_tokens; i += kSignalThreads) {
    a.host_token_ids[i] = a.token_ids[i];
  }
  // A warp a row; ranks that were not asked for stay behind.
  constexpr unsigned kWarps = kSignalThreads / kWarpLanes;
  for (unsigned row = threadIdx.x / kWarpLanes; row < a.num_logprobs; row += kWarps) {
    copy_row(a.logprobs[row], a.host_logprobs[row]);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  store_for_host(a.word, a.batch);
}

}  // namespace

void launch_signal(const SignalArguments& arguments, StreamHandle stream) {
  launch(signal_kernel, {.grid = 1, .block = kSignalThreads}, stream, arguments);
}

}  // namespace troupe::cuda
