// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/product_candidates.hpp"

#include <memory>
#include <utility>

#include "gpu/cuda/kernels/gemm/few_token_product.hpp"

namespace troupe::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t size_bytes) {
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Sizes {
  explicit Sizes(const ProductShape& shape)
      : a(aligned(std::size_t{shape.num_tokens} * shape.depth * size_of(shape.type))),
        // f32 for the kernel of few tokens, of c's type for cuBLASLt
        bias(aligned(std::size_t{shape.num_outputs} * sizeof(float))),
        c(aligned(std::size_t{shape.num_tokens} * shape.num_outputs * size_of(shape.c_type))) {}
  std::size_t a, bias, c;
};

FewTokenProductArguments few_tokens_of(const ProductShape& shape, const ProductPointers& pointers,
                                       std::byte* workspace) {
  return {.input = {.a = pointers.a,
                    .a_stride = shape.depth,
                    .weight = pointers.weight,
                    .weight_stride = shape.depth,
                    .bias = static_cast<const float*>(pointers.bias),
                    .type = shape.type,
                    .num_tokens = shape.num_tokens,
                    .num_outputs = shape.num_outputs,
                    .depth = shape.depth,
                    .workspace = workspace},
          .c = pointers.c,
          .c_stride = shape.num_outputs,
          .c_type = shape.c_type};
}

bool can_be_few_tokens(const ProductShape& shape) {
  return !shape.adds && shape.activation == ProductActivation::kNone &&
         can_multiply_few_tokens(few_tokens_of(shape, {}, nullptr).input);
}

}  // namespace

std::size_t product_scratch_bytes(const ProductShape& shape) {
  const Sizes sizes(bin_of(shape));
  return sizes.a + sizes.bias + sizes.c;
}

std::vector<ProductCandidate> product_candidates(CublasProducts& products, const ProductShape& any_shape,
                                                 const ProductScratch& scratch,
                                                 std::vector<const void*> weights, StreamHandle stream) {
  const ProductShape shape = bin_of(any_shape);
  if (weights.empty() || product_scratch_bytes(shape) > scratch.size_bytes) return {};
  const Sizes sizes(shape);
  ProductPointers pointers{.a = scratch.memory,
                           .bias = shape.has_bias ? scratch.memory + sizes.a : nullptr,
                           .c = scratch.memory + sizes.a + sizes.bias};
  const auto all = std::make_shared<const std::vector<const void*>>(std::move(weights));
  std::vector<ProductCandidate> candidates;
  for (const ProductChoice& choice : products.candidates(shape, kMostCublasCandidates)) {
    candidates.push_back({choice, [=, &products](std::size_t i) {
                            ProductPointers with = pointers;
                            with.weight = (*all)[i % all->size()];
                            products.run_with(choice, shape, with, stream);
                          }});
  }
  if (can_be_few_tokens(shape)) {
    candidates.push_back({{.kernel = ProductKernel::kFewTokens}, [=](std::size_t i) {
                            ProductPointers with = pointers;
                            with.weight = (*all)[i % all->size()];
                            launch_few_token_product(few_tokens_of(shape, with, scratch.few_token_workspace),
                                                     stream);
                          }});
  }
  return candidates;
}

std::size_t use_choices(CublasProducts& products, ProductChoices& choices) {
  return std::erase_if(choices, [&products](const auto& entry) {
    const auto& [shape, choice] = entry;
    return choice.kernel == ProductKernel::kCublasLt && !products.use(shape, choice);
  });
}

}  // namespace troupe::cuda
