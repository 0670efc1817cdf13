// SPDX-License-Identifier: Apache-2.0
// A direct loop over a device whose cells keep rows, without a scheduler: graphs go in,
// tokens and vectors come out. Which nodes share a batch, which rows they have and how
// many batches are in flight is drawn from a seed, because none of it may change a bit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/cpu/cpu_device.hpp"
#include "gpu/program/program_cache.hpp"
#include "policy/unfolding/cell_graph.hpp"

namespace troupe {

struct GraphRequest {
  std::shared_ptr<const CellGraph> graph;
  std::uint32_t num_prompt = 0;  // tokens in front of a drawn one
  std::uint32_t num_new = 0;     // tokens to draw
  SamplingParameters sampling{.temperature = 0.0F};
};

struct GraphAnswer {
  std::vector<std::int32_t> tokens;
  std::vector<float> vectors;  // of the result nodes, in order
  bool operator==(const GraphAnswer&) const = default;
};

struct GraphRunSettings {
  std::uint32_t seed = 0;
  bool shuffle = false;         // random subsets of what is ready, random rows
  std::uint32_t in_flight = 1;  // batches submitted before the oldest is collected
};

// Throws std::runtime_error if a batch fails.
std::vector<GraphAnswer> run_graphs(Device& device, ProgramCache& programs,
                                    const std::vector<GraphRequest>& requests,
                                    const GraphRunSettings& settings = {});

}  // namespace troupe
