// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/attention/head_norm.hpp"

#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/row_reduction.cuh"

namespace troupe::cuda {
namespace {

// A row is a head, see row_reduction.cuh.
template <typename T>
struct HeadNormRows {
  using State = float;  // sum of squares

  HeadNormArguments a;

  __host__ __device__ std::uint32_t heads_of_token() const { return a.num_heads + a.num_kv_heads; }
  __host__ __device__ std::uint32_t num_rows() const { return a.num_tokens * heads_of_token(); }
  __host__ __device__ std::uint32_t width() const { return a.head_dim; }

  __device__ __forceinline__ T* head_at(std::size_t row) const {
    return static_cast<T*>(a.qkv) + row / heads_of_token() * a.qkv_stride +
           row % heads_of_token() * a.head_dim;
  }
  __device__ __forceinline__ Eight load(std::size_t row, unsigned column) const {
    return load_eight(head_at(row), column, a.head_dim, are_rows_aligned(head_at(row), 0));
  }
  __device__ __forceinline__ Eight load_again(std::size_t row, unsigned column) const {
    return load(row, column);
  }
  __device__ __forceinline__ float none() const { return 0.0F; }
  __device__ __forceinline__ float state_of(const Eight& x, unsigned) const {
    float squares = 0.0F;
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) squares += x.v[i] * x.v[i];
    return squares;
  }
  __device__ __forceinline__ float merge(float left, float right) const { return left + right; }
  __device__ __forceinline__ void store(std::size_t row, unsigned column, const Eight& x,
                                        float squares) const {
    const float* weight = row % heads_of_token() < a.num_heads ? a.query_weight : a.key_weight;
    const float scale = rsqrtf(squares / static_cast<float>(a.head_dim) + a.epsilon);
    Eight normed = load_eight(weight, column, a.head_dim, are_rows_aligned(weight, 0));
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) normed.v[i] *= x.v[i] * scale;
    store_eight(head_at(row), column, a.head_dim, are_rows_aligned(head_at(row), 0), normed);
  }
};

}  // namespace

void launch_head_norm(const HeadNormArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_rows(HeadNormRows<decltype(element)>{arguments}, stream, arguments.overlaps_previous);
  });
}

}  // namespace troupe::cuda
