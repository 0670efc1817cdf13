// SPDX-License-Identifier: Apache-2.0
#include "app/costs/encoder_costs.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "app/loading/hardware.hpp"
#include "store/measurement_files.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kRounds = 2;

std::optional<EncoderCosts> kept_costs(const StateDirectory& directory, const std::string& key) {
  try {
    return read_encoder_costs(directory, key);
  } catch (const std::runtime_error& error) {
    log(LogLevel::kWarning, "times of encoders' batches are measured anew",
        {{"file", kEncoderCostFile}, {"reason", error.what()}});
    return std::nullopt;
  }
}

void keep(const StateDirectory& directory, const std::string& key, const EncoderCosts& costs) {
  try {
    write_encoder_costs(directory, key, costs);
  } catch (const std::runtime_error& error) {
    log(LogLevel::kWarning, "times of encoders' batches can't be kept for the next start",
        {{"reason", error.what()}});
  }
}

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

// The weights themselves do not matter, their shapes do.
std::string encoder_cost_key(const LoadedModel& model) {
  const ModelConfig& config = model.config;
  std::string key = std::string(TROUPE_VERSION) + "; " + cpu_name() + "; " + model.device_summary + "; " +
                    config.architecture;
  for (const std::uint32_t number :
       {config.hidden_size, config.intermediate_size, config.num_layers, config.num_heads,
        model.context_length, model.options.serving.max_batch_tokens})
    key += " " + std::to_string(number);
  return key;
}

EncoderCosts encoder_costs(const LoadedModel& model, const StateDirectory* directory) {
  const std::string key = encoder_cost_key(model);
  if (directory)
    if (const auto kept = kept_costs(*directory, key)) return *kept;
  try {
    const auto begin = std::chrono::steady_clock::now();
    ProbedDevice device(model);
    const EncoderCosts costs = measure_encoder_costs(device, kRounds);
    log(LogLevel::kInfo, "times of an encoder's batches measured",
        {{"model", model.served.name},
         {"text_of_64_us", costs(64, 1) / 1000},
         {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()}});
    if (directory) keep(*directory, key, costs);
    return costs;
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, "times of an encoder's batches can't be measured, they are learnt while serving",
        {{"model", model.served.name}, {"reason", error.what()}});
    return {};
  }
}

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
      const auto begin = std::chrono::steady_clock::now();
      device.run(std::move(batch));
      least = std::min(
          least,
          static_cast<double>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count()));
    }
    return least;
  });
}

}  // namespace troupe
