// SPDX-License-Identifier: Apache-2.0
// Measures what batches cost on a device, without actors: a grid of shapes, two
// batches in flight, rounds in which all shapes take turns, so that whatever
// else the machine does meanwhile falls on all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "app/costs/probed_device.hpp"
#include "app/loading/model_loading.hpp"
#include "policy/costs/cost_profile.hpp"

namespace troupe {

class DeviceProbe {
 public:
  // Makes a device of its own. Throws std::runtime_error if it can't.
  explicit DeviceProbe(const LoadedModel& model);

  const DeviceDescription& description() const { return device_.description(); }

  // One sample a shape of the grid: the median over rounds. Says how far it has
  // come after each round. Throws std::runtime_error if the device fails.
  std::vector<CostSample> measure(std::uint32_t num_rounds,
                                  const std::function<void(std::uint32_t)>& on_round = {});

 private:
  // num_decodes sequences with `context` tokens advance by one, one more with
  // prompt_context by prompt_tokens (0: none).
  struct Mix {
    std::uint32_t num_decodes = 0, context = 0;
    std::uint32_t prompt_tokens = 0, prompt_context = 0;
  };

  std::vector<Mix> grid() const;
  void fill_pages(std::uint32_t num_tokens);
  std::shared_ptr<const Batch> batch_of(const Mix& mix) const;
  void add_slice(Batch& batch, std::uint32_t sequence, const SequenceStep& step) const;

  ProbedDevice device_;
  std::uint32_t pages_each_ = 0;  // of every slot's sequence
};

}  // namespace troupe
