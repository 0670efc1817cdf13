// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"

#include <stdexcept>
#include <string>

#include "gpu/cuda/kernels/gemm/few_token_gemm.cuh"

namespace troupe::cuda {
namespace {

template <typename Short_, typename Out>
struct StoredSums {
  using Short = Short_;
  struct Columns {};
  struct Operand {};
  Out* c;
  std::size_t c_stride;
  std::uint32_t num_outputs;

  __host__ __device__ __forceinline__ unsigned num_strips() const {
    return divide_up(num_outputs, kStripOutputs);
  }
  __device__ __forceinline__ unsigned row(unsigned strip, unsigned lane) const {
    const unsigned output = strip * kStripOutputs + lane;
    return output < num_outputs ? output : kNoRow;
  }
  __device__ __forceinline__ Columns load_columns(unsigned, unsigned) const { return {}; }
  __device__ __forceinline__ Operand load(unsigned, unsigned, unsigned) const { return {}; }
  __device__ __forceinline__ void store(unsigned token, unsigned strip, unsigned lane, const Columns&,
                                        const Operand&, float value) const {
    const unsigned output = row(strip, lane);
    if (output != kNoRow) from_float(value, c + token * c_stride + output);
  }
};

template <typename Short, typename Out>
void launch_of_types(const FewTokenGemmArguments& a, StreamHandle stream) {
  launch_few_tokens(a.input, StoredSums<Short, Out>{static_cast<Out*>(a.c), a.c_stride, a.input.num_outputs},
                    stream);
}

}  // namespace

void launch_few_token_gemm(const FewTokenGemmArguments& arguments, StreamHandle stream) {
  if (arguments.c_type != DataType::kF32 && arguments.c_type != arguments.input.type) {
    throw std::invalid_argument(
        "a product of few tokens is stored in f32 or the type of what is "
        "multiplied, not in " +
        std::string(name_of(arguments.c_type)));
  }
  with_short_type(arguments.input.type, [&](auto element) {
    using Short = decltype(element);
    if (arguments.c_type == DataType::kF32) {
      launch_of_types<Short, float>(arguments, stream);
    } else {
      launch_of_types<Short, Short>(arguments, stream);
    }
  });
}

void check_few_token_input(const FewTokenInput& input, unsigned num_splits) {
  const auto is_aligned = [](const void* matrix) {
    return reinterpret_cast<std::uintptr_t>(matrix) % kPieceBytes == 0;
  };
  if (input.num_tokens > kMostFewTokens) {
    throw std::invalid_argument("a product of few tokens takes at most 64, not " +
                                std::to_string(input.num_tokens));
  }
  if (input.type != DataType::kBF16 && input.type != DataType::kF16) {
    throw std::invalid_argument("a product of few tokens multiplies bf16 or f16, not " +
                                std::string(name_of(input.type)));
  }
  if (!can_multiply_few_tokens(input) || !is_aligned(input.a) || !is_aligned(input.weight)) {
    throw std::invalid_argument(
        "a product of few tokens wants rows at "
        "multiples of 16 bytes and a depth that is a "
        "multiple of 8, not " +
        std::to_string(input.depth));
  }
  if (num_splits > 1 && input.workspace == nullptr) {
    throw std::invalid_argument(
        "a product of few tokens whose blocks share the depth wants a "
        "workspace");
  }
}

}  // namespace troupe::cuda
