// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/gemm/gemm_shape.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace troupe;
using namespace troupe::cuda;

TEST_CASE("product shape: bins are powers of two, and from 16 on half-way between as well") {
  std::vector<std::uint32_t> bins;
  for (std::uint32_t tokens = 1; tokens <= 256; ++tokens) {
    const auto bin = gemm_bin(tokens);
    CHECK(bin >= tokens);
    CHECK(gemm_bin(bin) == bin);
    if (bins.empty() || bins.back() != bin) bins.push_back(bin);
  }
  CHECK(bins == std::vector<std::uint32_t>{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256});
  CHECK(gemm_bin(0) == 1);
  CHECK(gemm_bin(0xFFFFFFFF) == 0xFFFFFFFF);
}

TEST_CASE("product shape: bytes count each matrix once, and c twice if it is added to") {
  GemmShape shape{.num_tokens = 2, .num_outputs = 3, .depth = 8};
  CHECK(bytes_of(shape) == 2 * 8 * 2 + 3 * 8 * 2 + 2 * 3 * 2);
  CHECK(operations_of(shape) == 2 * 2 * 3 * 8);
  shape.c_type = DataType::kF32;
  shape.adds = true;
  shape.has_bias = true;
  CHECK(bytes_of(shape) == 2 * 8 * 2 + 3 * 8 * 2 + 2 * (2 * 3 * 4) + 3 * 4);
}

TEST_CASE("product shape: reads well in a log") {
  CHECK(to_string(GemmShape{.num_tokens = 1, .num_outputs = 6144, .depth = 4096}) == "1 x 6144 x 4096 bf16");
  CHECK(to_string(GemmShape{.num_tokens = 64,
                            .num_outputs = 8,
                            .depth = 16,
                            .type = DataType::kF16,
                            .c_type = DataType::kF32,
                            .has_bias = true,
                            .adds = true,
                            .activation = GemmActivation::kGelu}) ==
        "64 x 8 x 16 f16 -> f32 +bias +gelu, added");
}
