// SPDX-License-Identifier: Apache-2.0
#include "gpu/host/kernels/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gpu/host/kernels/kernel_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t kTokensOfTask = 8;

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

}  // namespace

std::vector<float> rotary_frequencies(const RotaryParameters& parameters) {
  std::vector<float> frequencies(parameters.head_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double frequency =
        std::pow(parameters.theta, -2.0 * static_cast<double>(i) / static_cast<double>(parameters.head_dim));
    if (parameters.scaling == RotaryScaling::kLinear) frequency /= parameters.factor;
    if (parameters.scaling == RotaryScaling::kLlama3) frequency = scale_llama3(parameters, frequency);
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

RotaryTable::RotaryTable(const RotaryParameters& parameters)
    : head_dim_(parameters.head_dim),
      max_positions_(parameters.max_positions),
      values_(parameters.max_positions * parameters.head_dim) {
  const std::vector<float> frequencies = rotary_frequencies(parameters);
  for (std::size_t position = 0; position < max_positions_; ++position) {
    float* row = values_.data() + position * head_dim_;
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      // The angle is rounded to f32 as the reference implementation does.
      const float angle = static_cast<float>(position) * frequencies[i];
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      row[frequencies.size() + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

void place_tokens(std::span<const SequenceSlice> slices, std::span<const PageId> page_table,
                  std::vector<TokenPlace>& places) {
  places.clear();
  for (const auto& slice : slices) {
    for (std::uint32_t i = 0; i < slice.num_tokens; ++i) {
      const std::uint32_t position = slice.context_length + i;
      places.push_back(
          {.position = position, .page = page_table[slice.first_page + position / kKvPageTokens]});
    }
  }
}

std::size_t rotary_append_kv_num_tasks(const RotaryAppendKvArguments& arguments) {
  return (arguments.places.size() + kTokensOfTask - 1) / kTokensOfTask;
}

void rotary_append_kv_run_task(const RotaryAppendKvArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const std::size_t last = std::min(arguments.places.size(), (task + 1) * kTokensOfTask);
  for (std::size_t token = task * kTokensOfTask; token < last; ++token) {
    const TokenPlace& place = arguments.places[token];
    kernels.rotate_and_append({
        .qkv = arguments.qkv + token * arguments.qkv_stride,
        .num_heads = arguments.num_heads,
        .cosines_sines = arguments.table->row(place.position),
        .page = static_cast<std::byte*>(arguments.kv_pool) +
                kv_block_offset(arguments.layout, arguments.layer, place.page, 0),
        .slot = place.position % kKvPageTokens,
        .layout = arguments.layout,
    });
  }
}

}  // namespace troupe
