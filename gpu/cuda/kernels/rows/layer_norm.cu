// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/layer_norm.hpp"

#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/moments.cuh"
#include "gpu/cuda/kernels/rows/row_reduction.cuh"

namespace troupe::cuda {
namespace {

// See row_reduction.cuh. A thread reads its columns before it writes them, so normed may
// be x or residual.
template <typename T>
struct LayerNormRows {
  using State = Moments;
  LayerNormArguments a;

  __host__ __device__ std::uint32_t num_rows() const { return a.num_rows; }
  __host__ __device__ std::uint32_t width() const { return a.width; }

  __device__ __forceinline__ Moments none() const { return {0.0F, 0.0F, 0.0F}; }
  __device__ __forceinline__ Eight load(std::size_t row, unsigned column) const {
    Eight x = load_floats(a.x + row * a.width, column);
    if (a.residual != nullptr) add_eight(load_floats(a.residual + row * a.width, column), x);
    return x;
  }
  __device__ __forceinline__ Eight load_again(std::size_t row, unsigned column) const {
    return load(row, column);
  }
  __device__ __forceinline__ Moments state_of(const Eight& x, unsigned column) const {
    return moments_of(x, min(kEight, a.width - column));
  }
  __device__ __forceinline__ Moments merge(const Moments& left, const Moments& right) const {
    return merge_moments(left, right);
  }
  __device__ __forceinline__ void store(std::size_t row, unsigned column, const Eight& x,
                                        const Moments& moments) const {
    const float variance = moments.squares / static_cast<float>(a.width);
    const float scale = rsqrtf(variance + a.epsilon);
    const Eight weight = load_floats(a.weight, column);
    Eight normed = load_floats(a.bias, column);
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) {
      normed.v[i] += (x.v[i] - moments.mean) * scale * weight.v[i];
    }
    store_row(a.normed + row * a.width, column, normed);
    if (a.rounded != nullptr) store_row(static_cast<T*>(a.rounded) + row * a.width, column, normed);
  }

 private:
  __device__ __forceinline__ Eight load_floats(const float* row, unsigned column) const {
    return load_eight(row, column, a.width, are_rows_aligned(row, 0));
  }
  template <typename Element>
  __device__ __forceinline__ void store_row(Element* row, unsigned column, const Eight& normed) const {
    store_eight(row, column, a.width, are_rows_aligned(row, 0), normed);
  }
};

}  // namespace

void launch_layer_norm(const LayerNormArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_rows(LayerNormRows<decltype(element)>{arguments}, stream, arguments.overlaps_previous);
  });
}

}  // namespace troupe::cuda
