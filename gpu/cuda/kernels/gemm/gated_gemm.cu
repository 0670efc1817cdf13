// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/gemm/gated_gemm.hpp"

#include <stdexcept>
#include <string>

#include "gpu/cuda/kernels/gemm/few_token_gemm.cuh"
#include "gpu/cuda/kernels/rows/silu.cuh"

namespace troupe::cuda {
namespace {

// A strip is 16 gates and their 16 ups.
constexpr unsigned kPairs = kStripOutputs / 2;

template <typename Short_>
struct GatedSums {
  using Short = Short_;
  struct Columns {};
  struct Operand {};
  Short* h;
  std::size_t h_stride;
  std::uint32_t width;

  __host__ __device__ __forceinline__ unsigned num_strips() const { return divide_up(width, kPairs); }
  __device__ __forceinline__ unsigned row(unsigned strip, unsigned lane) const {
    const unsigned column = strip * kPairs + lane % kPairs;
    return column < width ? lane / kPairs * width + column : kNoRow;
  }
  __device__ __forceinline__ Columns load_columns(unsigned, unsigned) const { return {}; }
  __device__ __forceinline__ Operand load(unsigned, unsigned, unsigned) const { return {}; }
  __device__ __forceinline__ void store(unsigned token, unsigned strip, unsigned lane, const Columns&,
                                        const Operand&, float value) const {
    const float up = __shfl_down_sync(kAllLanes, value, kPairs);
    const unsigned column = strip * kPairs + lane;
    if (lane >= kPairs || column >= width) return;
    from_float(silu(value) * up, h + token * h_stride + column);
  }
};

}  // namespace

void launch_gated_gemm(const GatedGemmArguments& arguments, StreamHandle stream) {
  if (arguments.input.num_outputs % 2 != 0) {
    throw std::invalid_argument("a gated product wants as many gates as ups, not " +
                                std::to_string(arguments.input.num_outputs) + " of both");
  }
  with_short_type(arguments.input.type, [&](auto element) {
    using Short = decltype(element);
    launch_few_tokens(arguments.input,
                      GatedSums<Short>{static_cast<Short*>(arguments.h), arguments.h_stride,
                                       arguments.input.num_outputs / 2},
                      stream);
  });
}

}  // namespace troupe::cuda
