// SPDX-License-Identifier: Apache-2.0
// Shorthand for tests that drive the actors one message at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tests/simulation/sim_client.hpp"
#include "tests/simulation/sim_world.hpp"

namespace troupe {

inline GenerationRequest letters(std::string prompt, std::uint32_t max_tokens, std::uint64_t seed = 7) {
  GenerationRequest request;
  request.id = "test";
  request.prompt = TextPrompt{std::move(prompt)};
  request.max_tokens = max_tokens;
  request.sampling.seed = seed;
  request.has_seed = true;
  request.ignore_eos = true;  // the length is then known
  return request;
}

inline std::shared_ptr<sim::SimClient> submit(sim::SimWorld& world, sim::ClientPlan plan) {
  auto client = std::make_shared<sim::SimClient>(world, std::move(plan));
  client->start();
  return client;
}

inline std::shared_ptr<sim::SimClient> submit(sim::SimWorld& world, GenerationRequest request) {
  sim::ClientPlan plan;
  plan.request = std::move(request);
  return submit(world, std::move(plan));
}

inline std::shared_ptr<sim::SimClient> submit_refused(sim::SimWorld& world, GenerationRequest request) {
  sim::ClientPlan plan;
  plan.request = std::move(request);
  plan.is_refused = true;
  return submit(world, std::move(plan));
}

// Everything is over and nothing is left of it.
inline std::string leftovers(sim::SimWorld& world) {
  std::string found;
  for (const auto& violation : world.devices().violations) found += violation + "\n";
  if (world.scheduler().num_sequences() > 0) found += "sequences in the scheduler\n";
  if (world.engine().environment().registry->size() > 0) found += "requests in the registry\n";
  if (!world.pages().is_consistent()) found += "inconsistent pages\n";
  if (world.pages().counts().running > 0) found += "pages held\n";
  return found;
}

}  // namespace troupe
