// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/rms_norm.hpp"

#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/row_reduction.cuh"

namespace troupe::cuda {
namespace {

// See row_reduction.cuh.
template <typename T>
struct RmsNormRows {
  using State = float;  // sum of squares
  RmsNormArguments a;

  __host__ __device__ std::uint32_t num_rows() const { return a.num_rows; }
  __host__ __device__ std::uint32_t width() const { return a.width; }

  __device__ __forceinline__ float none() const { return 0.0F; }
  __device__ __forceinline__ Eight load(std::size_t row, unsigned column) const {
    Eight x = load_again(row, column);
    if (a.residual == nullptr) return x;
    const auto* residual = static_cast<const T*>(a.residual);
    add_eight(load_eight(residual + row * a.residual_stride, column, a.width,
                         are_rows_aligned(residual, a.residual_stride)),
              x);
    store_eight(a.x + row * a.x_stride, column, a.width, are_rows_aligned(a.x, a.x_stride), x);
    return x;
  }
  __device__ __forceinline__ Eight load_again(std::size_t row, unsigned column) const {
    return load_eight(a.x + row * a.x_stride, column, a.width, are_rows_aligned(a.x, a.x_stride));
  }
  __device__ __forceinline__ float state_of(const Eight& x, unsigned) const {
    float squares = 0.0F;
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) squares += x.v[i] * x.v[i];
    return squares;
  }
  __device__ __forceinline__ float merge(float left, float right) const { return left + right; }
  __device__ __forceinline__ void store(std::size_t row, unsigned column, const Eight& x,
                                        float squares) const {
    const float mean = squares / static_cast<float>(a.width);
    const float scale = rsqrtf(mean + a.epsilon);
    Eight normed = load_eight(a.weight, column, a.width, are_rows_aligned(a.weight, 0));
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) normed.v[i] *= x.v[i] * scale;
    auto* to = static_cast<T*>(a.normed);
    store_eight(to + row * a.normed_stride, column, a.width, are_rows_aligned(to, a.normed_stride), normed);
  }
};

}  // namespace

void launch_rms_norm(const RmsNormArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_rows(RmsNormRows<decltype(element)>{arguments}, stream, arguments.overlaps_previous);
  });
}

}  // namespace troupe::cuda
