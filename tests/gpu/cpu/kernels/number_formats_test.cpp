// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/number_formats.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

// By the definition of the format, not by its bits.
double f16_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

}  // namespace

TEST_CASE("formats: every bf16 and every f16 widens to its value on every instruction set") {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  for (const Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    std::vector<float> wide(bits.size());
    convert_to_f32(DataType::kBF16, bits.data(), wide.data(), bits.size(), isa);
    std::size_t num_wrong = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      num_wrong += std::bit_cast<std::uint32_t>(wide[i]) != i << 16;
    }
    CHECK(num_wrong == 0);
    convert_to_f32(DataType::kF16, bits.data(), wide.data(), bits.size(), isa);
    num_wrong = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const bool is_special = (i >> 10 & 31) == 31;
      if (!is_special) {
        num_wrong += wide[i] != f16_value(bits[i]) || std::signbit(wide[i]) != (i >= 32768);
      } else if ((i & 1023) != 0) {
        num_wrong += !std::isnan(wide[i]);
      } else {
        num_wrong += !std::isinf(wide[i]) || std::signbit(wide[i]) != (i >= 32768);
      }
    }
    CHECK(num_wrong == 0);
  }
}

TEST_CASE("formats: to bf16 rounds to the nearest, ties to even") {
  CHECK(bf16_from_f32(1.0F) == 0x3F80);
  CHECK(bf16_from_f32(std::bit_cast<float>(0x3F808000U)) == 0x3F80);  // tie, even below
  CHECK(bf16_from_f32(std::bit_cast<float>(0x3F818000U)) == 0x3F82);  // tie, even above
  CHECK(bf16_from_f32(std::bit_cast<float>(0x3F808001U)) == 0x3F81);
  CHECK(bf16_from_f32(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(bf16_from_f32(-std::numeric_limits<float>::infinity()) == 0xFF80);
  CHECK(std::isnan(f32_from_bf16(bf16_from_f32(std::bit_cast<float>(0x7F800001U)))));
}

TEST_CASE("formats: rows of every length convert alike on every instruction set") {
  for (const std::size_t count : {0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 100}) {
    const auto values = random_values(count + 1, 7);
    for (const Isa isa : supported_isas()) {
      CAPTURE(name_of(isa));
      CAPTURE(count);
      std::vector<std::uint16_t> narrow(count + 1, 0xABCD);
      convert_to_bf16(DataType::kF32, values.data(), narrow.data(), count, isa);
      for (std::size_t i = 0; i < count; ++i) CHECK(narrow[i] == bf16_from_f32(values[i]));
      CHECK(narrow[count] == 0xABCD);
      std::vector<float> wide(count + 1, -1.0F);
      convert_to_f32(DataType::kBF16, narrow.data(), wide.data(), count, isa);
      for (std::size_t i = 0; i < count; ++i) CHECK(wide[i] == f32_from_bf16(narrow[i]));
      CHECK(wide[count] == -1.0F);
    }
  }
}
