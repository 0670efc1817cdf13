// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/norm.hpp"

#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/moments.cuh"
#include "gpu/cuda/kernels/rows/row_reduction.cuh"

namespace troupe::cuda {
namespace {

__device__ __forceinline__ void add(const Eight& part, Eight& sum) {
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) sum.v[i] += part.v[i];
}

// What both norms have in common, see row_reduction.cuh.
template <typename T>
struct NormRows {
  NormArguments a;

  __host__ __device__ std::uint32_t num_rows() const { return a.num_rows; }
  __host__ __device__ std::uint32_t width() const { return a.width; }

  __device__ __forceinline__ Eight load(std::size_t row, unsigned column) const {
    Eight x = load_again(row, column);
    if (a.residual == nullptr && a.residual_bias == nullptr) return x;
    if (a.residual != nullptr) {
      const auto* residual = static_cast<const T*>(a.residual);
      add(load_eight(residual + row * a.residual_stride, column, a.width,
                     are_rows_aligned(residual, a.residual_stride)),
          x);
    }
    if (a.residual_bias != nullptr) add(load_vector_of_width(a.residual_bias, column), x);
    store_eight(a.x + row * a.x_stride, column, a.width, are_rows_aligned(a.x, a.x_stride), x);
    return x;
  }
  __device__ __forceinline__ Eight load_again(std::size_t row, unsigned column) const {
    return load_eight(a.x + row * a.x_stride, column, a.width, are_rows_aligned(a.x, a.x_stride));
  }
  // Weights and biases.
  __device__ __forceinline__ Eight load_vector_of_width(const float* vector, unsigned column) const {
    return load_eight(vector, column, a.width, are_rows_aligned(vector, 0));
  }
  __device__ __forceinline__ void store_normed(std::size_t row, unsigned column, const Eight& normed) const {
    auto* to = static_cast<T*>(a.normed);
    store_eight(to + row * a.normed_stride, column, a.width, are_rows_aligned(to, a.normed_stride), normed);
  }
};

template <typename T>
struct RmsNormRows : NormRows<T> {
  using State = float;  // sum of squares

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
    const float mean = squares / static_cast<float>(this->a.width);
    const float scale = rsqrtf(mean + this->a.epsilon);
    Eight normed = this->load_vector_of_width(this->a.weight, column);
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) normed.v[i] *= x.v[i] * scale;
    this->store_normed(row, column, normed);
  }
};

template <typename T>
struct LayerNormRows : NormRows<T> {
  using State = Moments;

  __device__ __forceinline__ Moments none() const { return {0.0F, 0.0F, 0.0F}; }
  __device__ __forceinline__ Moments state_of(const Eight& x, unsigned column) const {
    return moments_of(x, min(kEight, this->a.width - column));
  }
  __device__ __forceinline__ Moments merge(const Moments& left, const Moments& right) const {
    return merge_moments(left, right);
  }
  __device__ __forceinline__ void store(std::size_t row, unsigned column, const Eight& x,
                                        const Moments& moments) const {
    const float variance = moments.squares / static_cast<float>(this->a.width);
    const float scale = rsqrtf(variance + this->a.epsilon);
    const Eight weight = this->load_vector_of_width(this->a.weight, column);
    Eight normed = this->load_vector_of_width(this->a.bias, column);
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) {
      normed.v[i] += (x.v[i] - moments.mean) * scale * weight.v[i];
    }
    this->store_normed(row, column, normed);
  }
};

}  // namespace

void launch_rms_norm(const NormArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type,
                    [&](auto element) { launch_rows(RmsNormRows<decltype(element)>{{arguments}}, stream); });
}

void launch_layer_norm(const NormArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    launch_rows(LayerNormRows<decltype(element)>{{arguments}}, stream);
  });
}

}  // namespace troupe::cuda
