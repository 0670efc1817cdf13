// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/rotary_table.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe {
namespace {

// Llama 3.1: long wavelengths are stretched by the factor, short ones kept,
// those between blended.
double scale_llama3(const RotaryParameters& p, double frequency) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double longest_kept = p.original_max_positions / p.high_frequency_factor;
  const double shortest_stretched = p.original_max_positions / p.low_frequency_factor;
  if (wavelength < longest_kept) return frequency;
  if (wavelength > shortest_stretched) return frequency / p.factor;
  const double smooth = (p.original_max_positions / wavelength - p.low_frequency_factor) /
                        (p.high_frequency_factor - p.low_frequency_factor);
  return (1.0 - smooth) * frequency / p.factor + smooth * frequency;
}

// YaRN (Peng et al. 2023): dimensions that turn often over the original context keep their
// frequency, those that turn less than once are divided by the factor, those between blended.
double scale_yarn(const RotaryParameters& p, std::size_t index, double frequency) {
  const auto dim = static_cast<double>(p.rotary_dim);
  const auto dimension_of = [&](double rotations) {
    return dim * std::log(p.original_max_positions / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(p.theta));
  };
  double first = dimension_of(p.fast_rotations), last = dimension_of(p.slow_rotations);
  if (p.rounds_bounds) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0);
  last = std::min(last, dim - 1.0);
  if (first == last) last += 0.001;
  const double divided = std::clamp((static_cast<double>(index) - first) / (last - first), 0.0, 1.0);
  return divided * frequency / p.factor + (1.0 - divided) * frequency;
}

const std::vector<float>& divisors_of(const RotaryParameters& p) {
  const bool is_long = static_cast<double>(p.max_positions) > p.original_max_positions;
  return is_long && !p.long_divisors.empty() ? p.long_divisors : p.divisors;
}

}  // namespace

std::vector<float> rotary_frequencies(const RotaryParameters& parameters) {
  const std::vector<float>& divisors = divisors_of(parameters);
  std::vector<float> frequencies(parameters.rotary_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = std::pow(parameters.theta,
                                -2.0 * static_cast<double>(i) / static_cast<double>(parameters.rotary_dim));
    if (parameters.scaling == RotaryScaling::kLinear) frequency /= parameters.factor;
    if (parameters.scaling == RotaryScaling::kLlama3) frequency = scale_llama3(parameters, frequency);
    if (parameters.scaling == RotaryScaling::kYarn) frequency = scale_yarn(parameters, i, frequency);
    if (!divisors.empty()) frequency /= static_cast<double>(divisors[i]);
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

RotaryTable::RotaryTable(const RotaryParameters& parameters)
    : rotary_dim_(parameters.rotary_dim),
      max_positions_(parameters.max_positions),
      values_(parameters.max_positions * parameters.rotary_dim) {
  const std::vector<float> frequencies = rotary_frequencies(parameters);
  for (std::size_t position = 0; position < max_positions_; ++position) {
    float* row = values_.data() + position * rotary_dim_;
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      // The angle is rounded to f32 as the reference implementation does.
      const float angle = static_cast<float>(position) * frequencies[i];
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * parameters.magnitude);
      row[frequencies.size() + i] =
          static_cast<float>(std::sin(static_cast<double>(angle)) * parameters.magnitude);
    }
  }
}

}  // namespace troupe
