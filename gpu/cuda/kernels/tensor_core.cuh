// SPDX-License-Identifier: Apache-2.0
// Matrix operations of a warp of sm_80 and later, as small functions around
// PTX, each with a twin for the SIMT interpreter. Layouts of fragments are those
// of the PTX ISA, "Matrix Fragments for mma.m16n8k16".
#pragma once

#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {

// A lane's part of 16 rows of 16 numbers of a 16-bit type: rows lane / 4 and + 8 (words 0, 2 and
// 1, 3), elements 2 * (lane % 4) and the next one, and those 8 further (2, 3).
struct FragmentA {
  unsigned words[4];
};
// Fragment of 16 x 8 of the same type: elements 2 * (lane % 4), the next, and those 8 further, of
// column lane / 4.
struct FragmentB {
  unsigned words[2];
};
// Fragment of 16 x 8 f32: columns 2 * (lane % 4) and the next one, of row lane / 4 (0, 1)
// and of row lane / 4 + 8 (2, 3).
struct FragmentC {
  float v[4];
};

#ifdef TROUPE_SIMT

template <typename Short = __nv_bfloat16>
__device__ void multiply_add(const FragmentA& a, const FragmentB& b, FragmentC& c) {
  constexpr unsigned kMaxThreads = 1024;
  static FragmentA rows[kMaxThreads];  // one exchange for what would be 24 shuffles
  static FragmentB columns[kMaxThreads];
  const unsigned lane = threadIdx.x % kWarpLanes, first = threadIdx.x - lane;
  rows[threadIdx.x] = a;
  columns[threadIdx.x] = b;
  __syncwarp();
  for (unsigned i = 0; i < 4; ++i) {  // the lane with elements 2 * i, 2 * i + 1 and 8 further
    const FragmentA& of_rows = rows[first + lane / 4 * 4 + i];
    for (unsigned result = 0; result < 4; ++result) {
      const FragmentB& of_column = columns[first + (lane % 4 * 2 + result % 2) * 4 + i];
      for (unsigned half = 0; half < 2; ++half) {
        const float2 x = unpack<Short>(of_rows.words[result / 2 + 2 * half]),
                     y = unpack<Short>(of_column.words[half]);
        c.v[result] += x.x * y.x + x.y * y.y;
      }
    }
  }
  __syncwarp();
}

template <typename Short>
__device__ void load_transposed(const Short* row, FragmentB (&b)[2]) {
  simt::check_aligned(row, 16);
  const unsigned lane = threadIdx.x % kWarpLanes;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const int from = static_cast<int>(matrix * 8 + lane % 4 * 2);
    const auto* first = __shfl_sync(kAllLanes, row, from);
    const auto* second = __shfl_sync(kAllLanes, row, from + 1);
    b[matrix / 2].words[matrix % 2] = pack<Short>(to_float(first[lane / 4]), to_float(second[lane / 4]));
  }
}

__device__ inline void copy_16_async(void* shared, const void* global, bool is_wanted) {
  simt::check_aligned(shared, 16);
  if (is_wanted) simt::check_aligned(global, 16);
  simt::running_block().begin_copy(shared, global, is_wanted);
}
__device__ inline void stream_16_async(void* shared, const void* global, bool is_wanted) {
  copy_16_async(shared, global, is_wanted);
}
__device__ inline void end_copy_group() { simt::running_block().end_copy_group(); }
template <int kGroupsLeft>
__device__ void wait_for_copies() {
  simt::running_block().wait_for_copies(kGroupsLeft);
}

#else

// c += a · b
template <typename Short = __nv_bfloat16>
__device__ __forceinline__ void multiply_add(const FragmentA& a, const FragmentB& b, FragmentC& c) {
  if constexpr (std::is_same_v<Short, __nv_bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
        : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[0]),
          "r"(b.words[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
        : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[0]),
          "r"(b.words[1]));
  }
}

// From shared memory, rows of 16 bytes: lane 8 * i + r names row r of matrix i
// (8 x 8). b[0] is of the columns of matrices 0 and 1, b[1] of 2 and 3.
template <typename Short>
__device__ __forceinline__ void load_transposed(const Short* row, FragmentB (&b)[2]) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(b[0].words[0]), "=r"(b[0].words[1]), "=r"(b[1].words[0]), "=r"(b[1].words[1])
               : "r"(address)
               : "memory");
}

// Starts a copy of 16 bytes into shared memory, of zeros if it is not wanted.
__device__ __forceinline__ void copy_16_async(void* shared, const void* global, bool is_wanted) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(global),
               "r"(is_wanted ? 16 : 0)
               : "memory");
}
// The same of what is read once, with its neighbours, by this block: whole
// lines of 128 bytes come from memory.
__device__ __forceinline__ void stream_16_async(void* shared, const void* global, bool is_wanted) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(address), "l"(global),
               "r"(is_wanted ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void end_copy_group() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// The thread's own copies, all but those of its last groups.
template <int kGroupsLeft>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kGroupsLeft) : "memory");
}

#endif

}  // namespace troupe::cuda
