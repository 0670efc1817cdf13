// SPDX-License-Identifier: Apache-2.0
// Measures what batches of each recurrent cell cost on a device, without actors: batches of
// powers of two, two in flight, rounds in which all take turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "app/costs/probed_device.hpp"
#include "app/loading/model_loading.hpp"
#include "policy/costs/cost_profile.hpp"

namespace troupe {

class CellProbe {
 public:
  // The model has an unfolding. Makes a device of its own; throws std::runtime_error if it can't.
  explicit CellProbe(const LoadedModel& model);

  const DeviceDescription& description() const { return device_.description(); }

  // By cell, and in it by size, one sample each: the median over rounds. Says how far it has
  // come after each round. Throws std::runtime_error if the device fails.
  std::vector<std::vector<CostSample>> measure(std::uint32_t num_rounds,
                                               const std::function<void(std::uint32_t)>& on_round = {});

 private:
  std::uint32_t max_nodes(CellId cell) const;
  std::int32_t token_of(CellId cell, std::uint32_t node) const;
  std::shared_ptr<const Batch> batch_of(CellId cell, std::uint32_t num_nodes) const;

  ProbedDevice device_;
  UnfoldingRule rule_;
  std::uint32_t source_words_ = 0;  // kEncodeDecode: the last ids of the vocabulary
};

// The costs and knees of the model's cells, by its samples.
ProfiledCells profiled_cells(const UnfoldingRule& rule, const DeviceDescription& device,
                             const std::vector<std::vector<CostSample>>& samples);

}  // namespace troupe
