// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/embed_sinusoids.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t kRowsOfTask = 16;
constexpr double kSlowest = 1e-4;

std::vector<double> frequencies_of(const EmbedSinusoidsArguments& arguments) {
  const std::size_t half = arguments.width / 2;
  const double steps =
      static_cast<double>(std::max<std::size_t>(1, arguments.ends_at_slowest ? half - 1 : half));
  std::vector<double> frequencies(half);
  for (std::size_t i = 0; i < half; ++i) frequencies[i] = std::pow(kSlowest, static_cast<double>(i) / steps);
  return frequencies;
}

void add_waves(std::span<const double> frequencies, double position, float* x) {
  const std::size_t half = frequencies.size();
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = position * frequencies[i];
    x[i] += static_cast<float>(std::sin(angle));
    x[half + i] += static_cast<float>(std::cos(angle));
  }
}

}  // namespace

std::size_t embed_sinusoids_num_tasks(const EmbedSinusoidsArguments& arguments) {
  return (arguments.token_ids.size() + kRowsOfTask - 1) / kRowsOfTask;
}

void embed_sinusoids_run_task(const EmbedSinusoidsArguments& arguments, std::size_t task) {
  const auto& kernels = kernel_table(arguments.isa);
  const EmbeddingTable& words = arguments.words;
  const std::size_t width = arguments.width;
  const std::vector<double> frequencies = frequencies_of(arguments);
  const std::size_t last = std::min(arguments.token_ids.size(), (task + 1) * kRowsOfTask);
  for (std::size_t row = task * kRowsOfTask; row < last; ++row) {
    float* x = arguments.x + row * width;
    const auto id = static_cast<std::size_t>(arguments.token_ids[row]);
    if (arguments.token_ids[row] < 0 || id >= words.num_rows) {
      std::fill_n(x, width, 0.0F);
      continue;
    }
    const auto* word = static_cast<const std::byte*>(words.rows) + id * width * size_of(words.type);
    kernels.to_f32(words.type, word, x, width);
    for (std::size_t i = 0; i < width; ++i) x[i] *= arguments.scale;
    add_waves(frequencies, arguments.first_position + arguments.token_positions[row], x);
  }
}

}  // namespace troupe
