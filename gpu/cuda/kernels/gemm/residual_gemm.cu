// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/gemm/residual_gemm.hpp"

#include "gpu/cuda/kernels/gemm/few_token_gemm.cuh"

namespace troupe::cuda {
namespace {

static_assert(kStripOutputs == kColumnsOfSquares);

template <typename Short_>
struct ResidualSums {
  using Short = Short_;
  struct Columns {
    float norm_weight;
  };
  struct Operand {
    float x;
  };
  ResidualGemmArguments a;

  __host__ __device__ __forceinline__ unsigned num_strips() const {
    return divide_up(a.input.num_outputs, kStripOutputs);
  }
  __device__ __forceinline__ unsigned row(unsigned strip, unsigned lane) const {
    const unsigned output = strip * kStripOutputs + lane;
    return output < a.input.num_outputs ? output : kNoRow;
  }
  __device__ __forceinline__ Columns load_columns(unsigned strip, unsigned lane) const {
    const unsigned output = row(strip, lane);
    return {output == kNoRow ? 0.0F : a.norm_weight[output]};
  }
  __device__ __forceinline__ Operand load(unsigned token, unsigned strip, unsigned lane) const {
    const unsigned output = row(strip, lane);
    return {output == kNoRow ? 0.0F : a.x[token * a.x_stride + output]};
  }
  __device__ __forceinline__ void store(unsigned token, unsigned strip, unsigned lane, const Columns& columns,
                                        const Operand& operand, float value) const {
    const unsigned output = row(strip, lane);
    const float x = operand.x + value;
    float squares[1] = {output == kNoRow ? 0.0F : x * x};
    reduce_warp(squares, Add{});
    if (lane == 0) a.next_squares[token * num_strips() + strip] = squares[0];
    if (output == kNoRow) return;
    a.x[token * a.x_stride + output] = x;
    from_float(x * columns.norm_weight, static_cast<Short*>(a.next_a) + token * a.next_a_stride + output);
  }
};

}  // namespace

void launch_residual_gemm(const ResidualGemmArguments& arguments, StreamHandle stream) {
  with_short_type(arguments.input.type, [&](auto element) {
    launch_few_tokens(arguments.input, ResidualSums<decltype(element)>{arguments}, stream);
  });
}

}  // namespace troupe::cuda
