// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/random_source.hpp"

#include <bit>
#include <cmath>
#include <numbers>

namespace troupe::loadgen {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

std::uint64_t finalized(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return finalized(finalized(a + kGolden) ^ (b * kGolden + 1));
}

RandomSource::RandomSource(std::uint64_t seed) {
  for (auto& word : state_) word = finalized(seed += kGolden);
}

RandomSource::RandomSource(std::uint64_t seed, RandomStream stream, std::uint64_t index)
    : RandomSource(mixed(mixed(seed, static_cast<std::uint64_t>(stream)), index)) {}

std::uint64_t RandomSource::next() {
  const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double RandomSource::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

std::uint64_t RandomSource::below(std::uint64_t limit) {
  // Numbers under 2^64 mod limit would make the small remainders likelier.
  const std::uint64_t surplus = -limit % limit;
  std::uint64_t number = next();
  while (number < surplus) number = next();
  return number % limit;
}

double RandomSource::exponential() { return -std::log1p(-uniform()); }

double RandomSource::normal() {
  // Box and Muller; the second value is thrown away to keep no state.
  const double radius = std::sqrt(2 * exponential());
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double RandomSource::gamma(double shape) {
  // Marsaglia and Tsang (2000), which needs a shape of at least 1.
  if (shape < 1) return gamma(shape + 1) * std::exp(-exponential() / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && -exponential() < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace troupe::loadgen
