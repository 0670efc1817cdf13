// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/few_token_product.hpp"

#include <stdexcept>
#include <string>

#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/tensor_core.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kWarps = 8;
constexpr unsigned kThreads = kWarps * kWarpLanes;
constexpr unsigned kOutputs = 16;      // of a block
constexpr unsigned kTokensOfTile = 8;  // of one product of the tensor cores
constexpr unsigned kStep = 32;         // elements of the depth a warp reads at once
constexpr unsigned kStepsAhead = 4;    // loads on their way together

// Eight neighbouring elements of the lane's two outputs. The tensor cores sum
// over 16 elements in an order that is ours to choose, as long as both sides
// have it: each lane gives them eight that are neighbours in memory, in two
// products.
struct WeightPart {
  uint4 upper;  // of output lane / 4
  uint4 lower;  // of output lane / 4 + 8
};

__device__ __forceinline__ const __nv_bfloat16* row_of(const void* matrix, std::size_t stride,
                                                       std::size_t row) {
  return static_cast<const __nv_bfloat16*>(matrix) + row * stride;
}

// Behind the last output it is loaded again, and not stored; behind the depth
// its last elements are, for tokens that are 0. So no load waits for a branch.
__device__ __forceinline__ WeightPart load_weight(const FewTokenProductArguments& a,
                                                  unsigned first_output, unsigned k) {
  const unsigned last_output = a.num_outputs - 1;
  const unsigned last_k = a.depth - 8;
  const auto load = [&](unsigned output) {
    const auto* row = row_of(a.weight, a.weight_stride, min(output, last_output));
    return __ldcs(reinterpret_cast<const uint4*>(row + min(k, last_k)));
  };
  return {load(first_output), load(first_output + 8)};
}

__device__ __forceinline__ void multiply_part(const WeightPart& weight, const uint4& tokens,
                                              FragmentC& sums) {
  multiply_add({{weight.upper.x, weight.lower.x, weight.upper.y, weight.lower.y}},
               {{tokens.x, tokens.y}}, sums);
  multiply_add({{weight.upper.z, weight.lower.z, weight.upper.w, weight.lower.w}},
               {{tokens.z, tokens.w}}, sums);
}

template <unsigned kTiles>
__device__ __forceinline__ void sum_part_of_depth(const FewTokenProductArguments& a,
                                                  FragmentC (&sums)[kTiles]) {
  const unsigned lane = threadIdx.x % kWarpLanes;
  const unsigned first_output = blockIdx.x * kOutputs + lane / 4;
  const unsigned first = threadIdx.x / kWarpLanes * kStep;
  for (unsigned begin = first; begin < a.depth; begin += kStepsAhead * kWarps * kStep) {
    WeightPart weights[kStepsAhead];
#pragma unroll
    for (unsigned step = 0; step < kStepsAhead; ++step) {
      weights[step] = load_weight(a, first_output, begin + step * kWarps * kStep + lane % 4 * 8);
    }
#pragma unroll
    for (unsigned step = 0; step < kStepsAhead; ++step) {
      const unsigned k = begin + step * kWarps * kStep + lane % 4 * 8;
#pragma unroll
      for (unsigned tile = 0; tile < kTiles; ++tile) {
        const unsigned token = tile * kTokensOfTile + lane / 4;
        const bool is_there = token < a.num_tokens && k < a.depth;
        const uint4 tokens = is_there ? load_vector<uint4>(row_of(a.a, a.a_stride, token) + k)
                                      : make_uint4(0, 0, 0, 0);
        multiply_part(weights[step], tokens, sums[tile]);
      }
    }
  }
}

template <typename Out, unsigned kTiles>
__global__ void __launch_bounds__(kThreads) few_token_kernel(const FewTokenProductArguments a) {
  __shared__ float of_warps[kWarps][kTiles * kTokensOfTile][kOutputs + 1];
  const unsigned lane = threadIdx.x % kWarpLanes;
  FragmentC sums[kTiles] = {};
  sum_part_of_depth(a, sums);
#pragma unroll
  for (unsigned tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned token = tile * kTokensOfTile + lane % 4 * 2 + i % 2;
      of_warps[threadIdx.x / kWarpLanes][token][lane / 4 + i / 2 * 8] = sums[tile].v[i];
    }
  }
  __syncthreads();
  const unsigned token = threadIdx.x / kOutputs;
  const unsigned output = blockIdx.x * kOutputs + threadIdx.x % kOutputs;
  if (token >= a.num_tokens || output >= a.num_outputs) return;
  float sum = a.bias == nullptr ? 0.0F : a.bias[output];
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    sum += of_warps[warp][token][threadIdx.x % kOutputs];
  }
  from_float(sum, static_cast<Out*>(a.c) + token * a.c_stride + output);
}
static_assert(kThreads >= kMostFewTokens * kOutputs);

void check(const FewTokenProductArguments& a) {
  const auto is_aligned = [](const void* matrix, std::size_t stride) {
    return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && stride % 8 == 0;
  };
  if (a.num_tokens > kMostFewTokens) {
    throw std::invalid_argument("a product of few tokens takes at most 16, not " +
                                std::to_string(a.num_tokens));
  }
  if (a.depth % 8 != 0 || !is_aligned(a.a, a.a_stride) || !is_aligned(a.weight, a.weight_stride)) {
    throw std::invalid_argument(
        "a product of few tokens wants rows at multiples of 16 bytes and a depth that is a "
        "multiple of 8, not " +
        std::to_string(a.depth));
  }
}

}  // namespace

void launch_few_token_product(const FewTokenProductArguments& arguments, StreamHandle stream) {
  check(arguments);
  if (arguments.num_tokens == 0 || arguments.num_outputs == 0) return;
  const LaunchShape shape{.grid = divide_up(arguments.num_outputs, kOutputs), .block = kThreads};
  with_element_type(arguments.c_type, [&](auto element) {
    using Out = decltype(element);
    if (arguments.num_tokens <= kTokensOfTile) {
      launch(few_token_kernel<Out, 1>, shape, stream, arguments);
    } else {
      launch(few_token_kernel<Out, 2>, shape, stream, arguments);
    }
  });
}

}  // namespace troupe::cuda
