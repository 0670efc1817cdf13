// SPDX-License-Identifier: Apache-2.0
#include "app/costs/cell_batches.hpp"

#include <chrono>
#include <exception>
#include <stdexcept>

#include "app/costs/cell_probe.hpp"
#include "app/loading/hardware.hpp"
#include "store/measurement_files.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kRounds = 2;

std::vector<std::uint32_t> kept_batches(const StateDirectory& directory, const std::string& key,
                                        std::size_t num_cells) {
  try {
    return read_cell_batches(directory, key, num_cells);
  } catch (const std::runtime_error& error) {
    log(LogLevel::kWarning, "sizes of batches of cells are measured anew",
        {{"file", kCellBatchFile}, {"reason", error.what()}});
    return {};
  }
}

void keep(const StateDirectory& directory, const std::string& key,
          const std::vector<std::uint32_t>& max_batches) {
  try {
    write_cell_batches(directory, key, max_batches);
  } catch (const std::runtime_error& error) {
    log(LogLevel::kWarning, "sizes of batches of cells can't be kept for the next start",
        {{"reason", error.what()}});
  }
}

std::vector<std::uint32_t> measure(const LoadedModel& model) {
  const auto begin = std::chrono::steady_clock::now();
  CellProbe probe(model);
  std::vector<std::uint32_t> max_batches;
  std::string sizes;
  for (const auto& samples : probe.measure(kRounds)) {
    max_batches.push_back(knee_of(samples));
    sizes += (sizes.empty() ? "" : ", ") + probe.description().cells[max_batches.size() - 1].name + " " +
             std::to_string(max_batches.back());
  }
  log(LogLevel::kInfo, "sizes of batches of cells measured",
      {{"model", model.served.name},
       {"nodes", sizes},
       {"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()}});
  return max_batches;
}

}  // namespace

// The weights themselves do not matter, their shapes do.
std::string cell_batch_key(const LoadedModel& model) {
  const ModelConfig& config = model.config;
  std::string key = std::string(TROUPE_VERSION) + "; " + cpu_name() + "; " + model.device_summary + "; " +
                    config.architecture;
  const std::uint32_t embedding = config.recurrent ? config.recurrent->embedding_size
                                  : config.tree    ? config.tree->embedding_size
                                                   : 0;
  const std::uint32_t source = config.recurrent ? config.recurrent->source_vocabulary : 0;
  const auto attention = config.recurrent ? static_cast<std::uint32_t>(config.recurrent->attention) : 0;
  for (const std::uint32_t number :
       {config.hidden_size, embedding, config.num_layers, config.vocabulary_size, source, attention,
        model.options.serving.max_batch_tokens, model.options.serving.max_batch_sequences})
    key += " " + std::to_string(number);
  return key;
}

std::vector<std::uint32_t> cell_batches(const LoadedModel& model, const StateDirectory* directory) {
  const std::string key = cell_batch_key(model);
  if (directory)
    if (auto kept = kept_batches(*directory, key, model.served.network->cells().size()); !kept.empty())
      return kept;
  try {
    auto measured = measure(model);
    if (directory) keep(*directory, key, measured);
    return measured;
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, "batches of cells can't be measured, they may have any size",
        {{"model", model.served.name}, {"reason", error.what()}});
    return {};
  }
}

}  // namespace troupe
