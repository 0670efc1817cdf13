// SPDX-License-Identifier: Apache-2.0
// CUDA C++ as the SIMT interpreter understands it: found in place of the
// toolkit's header when kernel sources are compiled for the CPU. Names,
// signatures and results are CUDA's ("CUDA C++ Programming Guide", "CUDA Math
// API"); what is missing is added when a kernel wants it. The host's side is in
// cuda_runtime_api.h.
#pragma once

#include <math.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"
#include "tests/simt/interpreter/launch.hpp"
#include "tests/simt/interpreter/weak_memory.hpp"

#define TROUPE_SIMT 1  // for wrappers that have a twin here

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
// One block runs at a time, so its shared variables may be static. Dynamic shared
// memory comes from dynamic_shared() of gpu/cuda/kernels/shared_memory.cuh.
#define __shared__ static

// ---- vectors ----

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct uint3 { unsigned x, y, z; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

extern dim3 blockDim, gridDim;
extern uint3 threadIdx, blockIdx;

// ---- what threads do together ----

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  using namespace troupe::simt;
  running_block().wait_at_barrier(BarrierKind::kPlain, false, where);
}
inline int __syncthreads_count(int predicate,
                               std::source_location where = std::source_location::current()) {
  using namespace troupe::simt;
  return running_block().wait_at_barrier(BarrierKind::kCount, predicate != 0, where);
}
inline int __syncthreads_and(int predicate,
                             std::source_location where = std::source_location::current()) {
  using namespace troupe::simt;
  return running_block().wait_at_barrier(BarrierKind::kAnd, predicate != 0, where);
}
inline int __syncthreads_or(int predicate,
                            std::source_location where = std::source_location::current()) {
  using namespace troupe::simt;
  return running_block().wait_at_barrier(BarrierKind::kOr, predicate != 0, where);
}

namespace troupe::simt {

template <typename T>
std::uint64_t bits_of(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 4) return std::bit_cast<std::uint32_t>(value);
  else return std::bit_cast<std::uint64_t>(value);
}
template <typename T>
T from_bits(std::uint64_t bits) {
  if constexpr (sizeof(T) == 4) return std::bit_cast<T>(static_cast<std::uint32_t>(bits));
  else return std::bit_cast<T>(bits);
}
template <typename T>
T shuffle(WarpOperationKind kind, unsigned mask, T value, unsigned argument, int width,
          std::source_location where) {
  return from_bits<T>(running_block().take_part({.kind = kind,
                                                 .mask = mask,
                                                 .operand = bits_of(value),
                                                 .argument = argument,
                                                 .width = static_cast<std::uint32_t>(width),
                                                 .where = where}));
}
template <typename T>
T reduce(WarpOperationKind kind, unsigned mask, T value, std::source_location where) {
  const auto wide = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  return static_cast<T>(
      running_block().take_part({.kind = kind, .mask = mask, .operand = wide, .where = where}));
}
inline unsigned vote(WarpOperationKind kind, unsigned mask, int predicate,
                     std::source_location where) {
  return static_cast<unsigned>(running_block().take_part(
      {.kind = kind, .mask = mask, .operand = predicate != 0 ? 1U : 0U, .where = where}));
}

}  // namespace troupe::simt

inline void __syncwarp(unsigned mask = 0xFFFFFFFFU,
                       std::source_location where = std::source_location::current()) {
  troupe::simt::vote(troupe::simt::WarpOperationKind::kSync, mask, 0, where);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              std::source_location where = std::source_location::current()) {
  return troupe::simt::shuffle(troupe::simt::WarpOperationKind::kShuffle, mask, value,
                               static_cast<unsigned>(lane), width, where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 std::source_location where = std::source_location::current()) {
  return troupe::simt::shuffle(troupe::simt::WarpOperationKind::kShuffleUp, mask, value, delta,
                               width, where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   std::source_location where = std::source_location::current()) {
  return troupe::simt::shuffle(troupe::simt::WarpOperationKind::kShuffleDown, mask, value, delta,
                               width, where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  std::source_location where = std::source_location::current()) {
  return troupe::simt::shuffle(troupe::simt::WarpOperationKind::kShuffleXor, mask, value,
                               static_cast<unsigned>(lane_mask), width, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location where = std::source_location::current()) {
  return troupe::simt::vote(troupe::simt::WarpOperationKind::kBallot, mask, predicate, where);
}
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  return static_cast<int>(
      troupe::simt::vote(troupe::simt::WarpOperationKind::kAny, mask, predicate, where));
}
inline int __all_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  return static_cast<int>(
      troupe::simt::vote(troupe::simt::WarpOperationKind::kAll, mask, predicate, where));
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T value,
                          std::source_location where = std::source_location::current()) {
  return static_cast<unsigned>(troupe::simt::running_block().take_part(
      {.kind = troupe::simt::WarpOperationKind::kMatchAny,
       .mask = mask,
       .operand = troupe::simt::bits_of(value),
       .where = where}));
}
template <typename T>
T __reduce_add_sync(unsigned mask, T value,
                    std::source_location where = std::source_location::current()) {
  return troupe::simt::reduce(troupe::simt::WarpOperationKind::kReduceAdd, mask, value, where);
}
template <typename T>
T __reduce_min_sync(unsigned mask, T value,
                    std::source_location where = std::source_location::current()) {
  return troupe::simt::reduce(troupe::simt::WarpOperationKind::kReduceMin, mask, value, where);
}
template <typename T>
T __reduce_max_sync(unsigned mask, T value,
                    std::source_location where = std::source_location::current()) {
  return troupe::simt::reduce(troupe::simt::WarpOperationKind::kReduceMax, mask, value, where);
}
// The most a GPU may answer: lanes of the warp that have not ended. What counts
// on it being all of those that came here waits for ever, and is reported.
inline unsigned __activemask() { return troupe::simt::running_block().lanes_not_ended(); }

inline void __threadfence() { troupe::simt::pass_fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() { troupe::simt::pass_fence(); }
inline void __nanosleep(unsigned) {}
inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// ---- memory ----

template <typename T>
T __ldg(const T* from) {
  troupe::simt::check_aligned(from, alignof(T));
  return *from;
}

template <typename T>
T __ldcs(const T* from) {  // only the caches know the difference
  return __ldg(from);
}

template <typename T>
T __ldcg(const T* from) {
  return __ldg(from);
}

template <typename T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  troupe::simt::check_aligned(address, sizeof(T));
  troupe::simt::perform_atomic();
  const T old = *address;
  *address = old + value;
  return old;
}
template <typename T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  troupe::simt::perform_atomic();
  const T old = *address;
  *address = std::min(old, value);
  return old;
}
template <typename T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  troupe::simt::perform_atomic();
  const T old = *address;
  *address = std::max(old, value);
  return old;
}
template <typename T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  troupe::simt::perform_atomic();
  const T old = *address;
  *address = value;
  return old;
}
template <typename T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  troupe::simt::perform_atomic();
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}

// ---- numbers ----

inline float __expf(float x) { return expf(x); }
inline float __fdividef(float x, float y) { return fabsf(y) > 0x1p126F ? 0.0F : x / y; }
inline float rsqrtf(float x) { return 1.0F / sqrtf(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(std::uint64_t{x} * y >> 32);
}
inline int min(int x, int y) { return x < y ? x : y; }
inline int max(int x, int y) { return x > y ? x : y; }
inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
inline unsigned max(unsigned x, unsigned y) { return x > y ? x : y; }

// ---- the host's side ----

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};
enum cudaSharedCarveout { cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxShared = 100 };
inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
    troupe::simt::prefer_shared_carveout(kernel, value);
  } else {
    troupe::simt::allow_dynamic_shared(kernel, static_cast<std::size_t>(value));
  }
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

// Of a programmatic dependent launch, blocks begin with what was there before the kernel in
// front of it in the stream, if that is the newest to have run; other attributes change nothing.
enum cudaLaunchAttributeID : int {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributePriority = 8,
};
union cudaLaunchAttributeValue {
  char pad[64];
  int cooperative;
  int programmaticStreamSerializationAllowed;
  int priority;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
inline void cudaGridDependencySynchronize() { troupe::simt::running_block().wait_for_previous_kernel(); }
inline void cudaTriggerProgrammaticLaunchCompletion() {
  troupe::simt::running_block().let_next_kernel_start();
}

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
namespace troupe::simt {
cudaError_t launch_kernel(const LaunchConfig& config, cudaStream_t stream,
                          std::function<void()> body);
}  // namespace troupe::simt

// The arguments are copied now. Throws KernelError for what a GPU refuses.
template <typename... Expected, typename... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...),
                               Given&&... given) {
  const dim3 &grid = config->gridDim, &block = config->blockDim;
  std::tuple<std::decay_t<Expected>...> arguments(static_cast<Expected>(given)...);
  return troupe::simt::launch_kernel(
      {.grid = {grid.x, grid.y, grid.z},
       .block = {block.x, block.y, block.z},
       .dynamic_shared_bytes = config->dynamicSmemBytes,
       .kernel = reinterpret_cast<const void*>(kernel),
       .overlaps_previous = std::any_of(config->attrs, config->attrs + config->numAttrs,
                                        [](const cudaLaunchAttribute& attribute) {
                                          return attribute.id ==
                                                     cudaLaunchAttributeProgrammaticStreamSerialization &&
                                                 attribute.val.programmaticStreamSerializationAllowed != 0;
                                        })},
      config->stream,
      [kernel, arguments = std::move(arguments)] { std::apply(kernel, arguments); });
}
