// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/product_candidates.hpp"

#include <memory>
#include <utility>

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

}  // namespace

std::size_t product_scratch_bytes(const ProductShape& shape) {
  const Sizes sizes(bin_of(shape));
  return sizes.a + sizes.bias + sizes.c;
}

std::vector<ProductCandidate> product_candidates(CublasProducts& products,
                                                 const ProductShape& any_shape,
                                                 const ProductScratch& scratch,
                                                 std::vector<const void*> weights,
                                                 StreamHandle stream) {
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
  return candidates;
}

std::size_t use_choices(CublasProducts& products, ProductChoices& choices) {
  return std::erase_if(choices, [&products](const auto& entry) {
    const auto& [shape, choice] = entry;
    return choice.kernel == ProductKernel::kCublasLt && !products.use(shape, choice);
  });
}

}  // namespace troupe::cuda
