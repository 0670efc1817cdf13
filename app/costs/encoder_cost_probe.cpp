// SPDX-License-Identifier: Apache-2.0
#include "app/costs/encoder_cost_probe.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

Batch batch_of(std::uint32_t length, std::uint32_t num_texts, std::uint32_t vocabulary) {
  Batch batch;
  for (std::uint32_t text = 0; text < num_texts; ++text) {
    SequenceSlice slice;
    slice.sequence = text;
    slice.num_tokens = length;
    batch.slices.push_back(std::move(slice));
    for (std::uint32_t i = 0; i < length; ++i)
      batch.token_ids.push_back(static_cast<std::int32_t>((text * 31 + i * 7 + 5) % vocabulary));
  }
  return batch;
}

}  // namespace

EncoderCosts measure_encoder_costs(ProbedDevice& device, std::uint32_t num_rounds) {
  const DeviceDescription& about = device.description();
  device.run(batch_of(1, 1, about.vocabulary_size));  // programs, pages of weights
  return EncoderCosts([&](std::uint32_t length, std::uint32_t num_texts) -> std::optional<double> {
    const bool is_first = length == 1 && num_texts == 1;
    if (!is_first && (length > about.context_length || num_texts > about.num_slots ||
                      length * num_texts > about.max_batch_tokens))
      return std::nullopt;
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t round = 0; round < std::max(num_rounds, 1U); ++round) {
      Batch batch = batch_of(length, num_texts, about.vocabulary_size);
      const auto begin = Clock::now();
      device.run(std::move(batch));
      least = std::min(least, static_cast<double>(std::chrono::nanoseconds(Clock::now() - begin).count()));
    }
    return least;
  });
}

}  // namespace troupe
