// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/rows/softmax.hpp"

#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/row_reduction.cuh"
#include "gpu/cuda/kernels/softmax_state.cuh"

namespace troupe::cuda {
namespace {

// See row_reduction.cuh; the eight columns are scaled scores, -Inf behind the
// row's length.
template <typename T>
struct SoftmaxRows {
  using State = SoftmaxState;
  SoftmaxArguments a;

  __host__ __device__ std::uint32_t num_rows() const { return a.num_rows; }
  __host__ __device__ std::uint32_t width() const { return a.width; }

  __device__ __forceinline__ SoftmaxState none() const { return {kLowest, 0.0F}; }
  __device__ __forceinline__ Eight load(std::size_t row, unsigned column) const {
    const unsigned length = a.lengths == nullptr ? a.width : a.lengths[row / a.rows_of_length];
    Eight scores = load_eight(begin_of(row), column, a.width, is_aligned());
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) {
      scores.v[i] = column + i < length ? scores.v[i] * a.scale : kLowest;
    }
    return scores;
  }
  __device__ __forceinline__ Eight load_again(std::size_t row, unsigned column) const {
    return load(row, column);
  }
  __device__ __forceinline__ SoftmaxState state_of(const Eight& scores, unsigned) const {
    SoftmaxState state = none();
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) state.highest = fmaxf(state.highest, scores.v[i]);
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) state.sum += rescale(scores.v[i], state.highest);
    return state;
  }
  __device__ __forceinline__ SoftmaxState merge(const SoftmaxState& left, const SoftmaxState& right) const {
    return merge_softmax(left, right);
  }
  __device__ __forceinline__ void store(std::size_t row, unsigned column, Eight scores,
                                        const SoftmaxState& state) const {
    const float inverse = state.sum > 0.0F ? 1.0F / state.sum : 0.0F;
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) {
      scores.v[i] = rescale(scores.v[i], state.highest) * inverse;
    }
    store_eight(begin_of(row), column, a.width, is_aligned(), scores);
  }

 private:
  __device__ __forceinline__ T* begin_of(std::size_t row) const {
    return static_cast<T*>(a.scores) + row * a.stride;
  }
  __device__ __forceinline__ bool is_aligned() const {
    return are_rows_aligned(static_cast<const T*>(a.scores), a.stride);
  }
};

}  // namespace

void launch_softmax(const SoftmaxArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type,
                    [&](auto element) { launch_rows(SoftmaxRows<decltype(element)>{arguments}, stream); });
}

}  // namespace troupe::cuda
