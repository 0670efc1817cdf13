// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/signal.hpp"

#include "gpu/cuda/kernels/launch.cuh"

#ifdef TROUPE_SIMT
#include <atomic>
#endif

namespace troupe::cuda {
namespace {

constexpr unsigned kSignalThreads = 128;

// For a thread of the host that polls it.
__device__ void store_for_host(std::uint64_t* address, std::uint64_t value) {
#ifdef TROUPE_SIMT
  std::atomic_ref(*address).store(value, std::memory_order_release);
#else
  __threadfence_system();  // all tokens before the word
  *static_cast<volatile std::uint64_t*>(address) = value;
#endif
}

__global__ void __launch_bounds__(kSignalThreads) signal_kernel(const SignalArguments a) {
  for (unsigned i = threadIdx.x; i < a.num_tokens; i += kSignalThreads) {
    a.host_token_ids[i] = a.token_ids[i];
  }
  __threadfence_system();  // a thread's tokens before what follows the barrier
  __syncthreads();
  if (threadIdx.x != 0) return;
  store_for_host(a.word, a.batch);
}

}  // namespace

void launch_signal(const SignalArguments& arguments, StreamHandle stream) {
  launch(signal_kernel, {.grid = 1, .block = kSignalThreads}, stream, arguments);
}

}  // namespace troupe::cuda
