// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/softmax.hpp"

#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/norm_shape.cuh"
#include "gpu/cuda/kernels/reductions.cuh"
#include "gpu/cuda/kernels/softmax_state.cuh"

namespace troupe::cuda {
namespace {

struct ScoreRow {
  std::size_t number;
  unsigned length;
};

template <typename T>
__device__ __forceinline__ T* begin_of(const SoftmaxArguments& a, std::size_t row) {
  return static_cast<T*>(a.scores) + row * a.stride;
}

// Scaled scores; -Inf behind the row's length.
template <typename T>
__device__ __forceinline__ Eight load_scores(const SoftmaxArguments& a, const ScoreRow& row,
                                             unsigned first, bool is_aligned) {
  Eight scores = load_eight(begin_of<T>(a, row.number), first, a.width, is_aligned);
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) {
    scores.v[i] = first + i < row.length ? scores.v[i] * a.scale : kLowest;
  }
  return scores;
}

__device__ __forceinline__ SoftmaxState state_of(const Eight& scores) {
  SoftmaxState state{kLowest, 0.0F};
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) state.highest = fmaxf(state.highest, scores.v[i]);
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) state.sum += rescale(scores.v[i], state.highest);
  return state;
}

template <typename T>
__device__ __forceinline__ void store_weights(const SoftmaxArguments& a, const ScoreRow& row,
                                              unsigned first, bool is_aligned, Eight scores,
                                              const SoftmaxState& state) {
  const float inverse = state.sum > 0.0F ? 1.0F / state.sum : 0.0F;
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) {
    scores.v[i] = rescale(scores.v[i], state.highest) * inverse;
  }
  store_eight(begin_of<T>(a, row.number), first, a.width, is_aligned, scores);
}

// Laid out as rms_norm_kernel.
template <typename T, int kRows>
__global__ void __launch_bounds__(kMaxNormThreads) softmax_kernel(const SoftmaxArguments a) {
  __shared__ ReductionScratch<SoftmaxState, kRows> scratch;
  const unsigned first = threadIdx.x * kEight;
  const unsigned step = blockDim.x * kEight;
  const bool is_aligned = are_rows_aligned(static_cast<const T*>(a.scores), a.stride);
  ScoreRow rows[kRows];
  Eight kept[kRows];
  SoftmaxState states[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::size_t row = std::size_t{blockIdx.x} * kRows + r;
    const bool has_length = a.lengths != nullptr && row < a.num_rows;
    rows[r] = {row, has_length ? a.lengths[row / a.rows_of_length] : a.width};
    states[r] = {kLowest, 0.0F};
  }
  for (unsigned column = first; column < a.width; column += step) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (rows[r].number >= a.num_rows) continue;
      const Eight scores = load_scores<T>(a, rows[r], column, is_aligned);
      if (column == first) kept[r] = scores;
      states[r] = MergeSoftmax{}(states[r], state_of(scores));
    }
  }
  reduce_block(states, SoftmaxState{kLowest, 0.0F}, MergeSoftmax{}, scratch);
  for (unsigned column = first; column < a.width; column += step) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (rows[r].number >= a.num_rows) continue;
      const Eight scores =
          column == first ? kept[r] : load_scores<T>(a, rows[r], column, is_aligned);
      store_weights<T>(a, rows[r], column, is_aligned, scores, states[r]);
    }
  }
}

}  // namespace

void launch_softmax(const SoftmaxArguments& arguments, StreamHandle stream) {
  with_element_type(arguments.type, [&](auto element) {
    using T = decltype(element);
    launch_rows(softmax_kernel<T, 1>, softmax_kernel<T, kRowsTogether>, arguments, stream);
  });
}

}  // namespace troupe::cuda
