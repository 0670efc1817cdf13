// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/rotary_table.hpp"

#include <doctest/doctest.h>

#include <numbers>

using namespace troupe;

TEST_CASE("rotary: linear and llama3 scaling change the frequencies as defined") {
  const auto plain = rotary_frequencies({.rotary_dim = 128, .theta = 500000.0});
  const auto linear = rotary_frequencies(
      {.rotary_dim = 128, .theta = 500000.0, .scaling = RotaryScaling::kLinear, .factor = 4.0});
  const auto llama3 = rotary_frequencies({.rotary_dim = 128,
                                          .theta = 500000.0,
                                          .scaling = RotaryScaling::kLlama3,
                                          .factor = 8.0,
                                          .low_frequency_factor = 1.0,
                                          .high_frequency_factor = 4.0,
                                          .original_max_positions = 8192});
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(linear[i] == doctest::Approx(plain[i] / 4.0).epsilon(1e-6));
    const double wavelength = 2.0 * std::numbers::pi / plain[i];
    if (wavelength < 2048) CHECK(llama3[i] == plain[i]);
    if (wavelength > 8192) CHECK(llama3[i] == doctest::Approx(plain[i] / 8.0).epsilon(1e-6));
    if (wavelength > 2048 && wavelength < 8192) {
      CHECK(llama3[i] < plain[i]);
      CHECK(llama3[i] > plain[i] / 8.0F);
    }
  }
  CHECK(plain[0] == 1.0F);
}
