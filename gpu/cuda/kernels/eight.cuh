// SPDX-License-Identifier: Apache-2.0
// Rows are read and written eight numbers at a time: one access of 16 bytes in
// bf16 and f16, two in f32. Rows that are not aligned or whose width is no
// multiple of eight take the same path element by element, with zeros behind their
// end. A value too large for f16 is stored as infinity, as everywhere in CUDA.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe::cuda {

inline constexpr unsigned kEight = 8;

struct Eight {
  float v[kEight];
};

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ void from_float(float value, float* to) { *to = value; }
__device__ __forceinline__ void from_float(float value, __nv_bfloat16* to) {
  *to = __float2bfloat16_rn(value);
}
__device__ __forceinline__ void from_float(float value, __half* to) { *to = __float2half_rn(value); }

// One access of sizeof(Vector) bytes.
template <typename Vector>
__device__ __forceinline__ Vector load_vector(const void* from) {
#ifdef TROUPE_SIMT
  simt::check_aligned(from, alignof(Vector));
#endif
  return *static_cast<const Vector*>(from);
}
template <typename Vector>
__device__ __forceinline__ void store_vector(void* to, const Vector& value) {
#ifdef TROUPE_SIMT
  simt::check_aligned(to, alignof(Vector));
#endif
  *static_cast<Vector*>(to) = value;
}

// The two numbers of a 32-bit word, the first in its lower half. Short is
// __nv_bfloat16 or __half.
template <typename Short>
__device__ __forceinline__ float2 unpack(unsigned word) {
  if constexpr (std::is_same_v<Short, __nv_bfloat16>) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000U)};
  } else {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  }
}
template <typename Short>
__device__ __forceinline__ unsigned pack(float low, float high) {
  if constexpr (std::is_same_v<Short, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
  }
}

// Eight numbers as they lie in memory.
template <typename T>
struct RawEight {
  uint4 words;
};
template <>
struct RawEight<float> {
  float4 low, high;
};

template <typename T>
__device__ __forceinline__ RawEight<T> load_raw(const T* from) {
  if constexpr (sizeof(T) == 2) {
    return {load_vector<uint4>(from)};
  } else {
    return {load_vector<float4>(from), load_vector<float4>(from + 4)};
  }
}
template <typename T>
__device__ __forceinline__ Eight unpack_eight(const RawEight<T>& raw) {
  if constexpr (sizeof(T) == 2) {
    const float2 first = unpack<T>(raw.words.x), second = unpack<T>(raw.words.y),
                 third = unpack<T>(raw.words.z), fourth = unpack<T>(raw.words.w);
    return {{first.x, first.y, second.x, second.y, third.x, third.y, fourth.x, fourth.y}};
  } else {
    return {{raw.low.x, raw.low.y, raw.low.z, raw.low.w, raw.high.x, raw.high.y, raw.high.z, raw.high.w}};
  }
}
template <typename T>
__device__ __forceinline__ Eight load_aligned(const T* from) {
  return unpack_eight(load_raw(from));
}
__device__ __forceinline__ void store_aligned(float* to, const Eight& e) {
  store_vector(to, make_float4(e.v[0], e.v[1], e.v[2], e.v[3]));
  store_vector(to + 4, make_float4(e.v[4], e.v[5], e.v[6], e.v[7]));
}
template <typename Short>
__device__ __forceinline__ void store_aligned(Short* to, const Eight& e) {
  store_vector(to, make_uint4(pack<Short>(e.v[0], e.v[1]), pack<Short>(e.v[2], e.v[3]),
                              pack<Short>(e.v[4], e.v[5]), pack<Short>(e.v[6], e.v[7])));
}

// sum += part
__device__ __forceinline__ void add_eight(const Eight& part, Eight& sum) {
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) sum.v[i] += part.v[i];
}

// True if every row of a matrix begins at a multiple of 16 bytes.
template <typename T>
__device__ __forceinline__ bool are_rows_aligned(const T* matrix, std::size_t stride) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && stride * sizeof(T) % 16 == 0;
}

// Elements [first, first + 8) of a row of `width`.
template <typename T>
__device__ __forceinline__ Eight load_eight(const T* row, unsigned first, unsigned width, bool is_aligned) {
  if (is_aligned && first + kEight <= width) return load_aligned(row + first);
  Eight e;
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) e.v[i] = first + i < width ? to_float(row[first + i]) : 0.0F;
  return e;
}
template <typename T>
__device__ __forceinline__ void store_eight(T* row, unsigned first, unsigned width, bool is_aligned,
                                            const Eight& e) {
  if (is_aligned && first + kEight <= width) {
    store_aligned(row + first, e);
    return;
  }
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) {
    if (first + i < width) from_float(e.v[i], &row[first + i]);
  }
}

}  // namespace troupe::cuda
