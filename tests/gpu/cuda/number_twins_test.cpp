// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "gpu/cpu/kernels/number_formats.hpp"

using namespace troupe;

namespace {

bool same_number(float left, float right) {
  return std::isnan(left) ? std::isnan(right)
                          : std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right);
}

// The f16 nearest to a value, ties to even, by looking at all of them once.
std::uint16_t nearest_f16(float value) {
  std::uint16_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 0; bits <= 0x7C00U; ++bits) {
    const double candidate =  // infinity stands where the next number would be
        bits == 0x7C00U ? 65536.0 : f32_from_f16(static_cast<std::uint16_t>(bits));
    const double distance = std::abs(std::abs(double{value}) - candidate);
    if (distance < least || (distance == least && bits % 2 == 0)) {
      least = distance;
      best = static_cast<std::uint16_t>(bits);
    }
  }
  return static_cast<std::uint16_t>(best | (std::signbit(value) ? 0x8000U : 0U));
}

}  // namespace

TEST_CASE("number twins: every 16-bit number means what it means on the host") {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    REQUIRE(same_number(__half2float({narrow}), f32_from_f16(narrow)));
    REQUIRE(same_number(__bfloat162float({narrow}), f32_from_bf16(narrow)));
  }
}

TEST_CASE("number twins: rounding to bf16 is the host's, to the nearest and even") {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    REQUIRE(__float2bfloat16_rn(value).bits == bf16_from_f32(value));
  }
  CHECK(__float2bfloat16_rn(std::bit_cast<float>(0x3F808000U)).bits == 0x3F80);  // ties
  CHECK(__float2bfloat16_rn(std::bit_cast<float>(0x3F818000U)).bits == 0x3F82);
  CHECK(__float2bfloat16_rn(std::numeric_limits<float>::max()).bits == 0x7F80);
  CHECK(__float2bfloat16_rn(std::numeric_limits<float>::quiet_NaN()).bits == 0x7FFF);
}

TEST_CASE("number twins: every f16 and the ties beside it round as they should") {
  for (std::uint32_t bits = 0; bits < 0x7C00U; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    REQUIRE(__float2half_rn(f32_from_f16(narrow)).bits == narrow);
    if (bits == 0x7BFFU) continue;
    const float middle = (f32_from_f16(narrow) + f32_from_f16(static_cast<std::uint16_t>(bits + 1))) / 2;
    REQUIRE(__float2half_rn(middle).bits == (bits % 2 == 0 ? bits : bits + 1));
    REQUIRE(__float2half_rn(std::nextafter(middle, 0.0F)).bits == bits);
    REQUIRE(__float2half_rn(std::nextafter(middle, 1e9F)).bits == bits + 1);
  }
  for (const float value : {1e-8F, 5.9604645e-8F, -3.3F, 1234.56F, 65519.9F, 65520.0F, 1e30F}) {
    CHECK(__float2half_rn(value).bits == nearest_f16(value));
  }
  CHECK(__float2half_rn(std::numeric_limits<float>::quiet_NaN()).bits == 0x7FFF);
}
