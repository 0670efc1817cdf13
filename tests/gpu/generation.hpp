// SPDX-License-Identifier: Apache-2.0
// A direct loop over a device, without actors: prompts go in, tokens come out.
// How prompts are cut into chunks, where pages lie, who runs with whom and how
// many batches are in flight is drawn from a seed, because none of it may
// change a token.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "gpu/cpu/cpu_device.hpp"
#include "gpu/device.hpp"
#include "gpu/program/program_cache.hpp"

namespace troupe {

// A prompt, and how many tokens are to follow.
struct DirectRequest {
  std::vector<std::int32_t> prompt;
  std::uint32_t num_new = 1;
  SamplingParameters sampling{.temperature = 0.0F};
  std::uint32_t first_iteration = 0;  // joins then
  // Set: these num_new - 1 tokens follow the prompt, whatever is drawn (teacher forcing).
  std::vector<std::int32_t> forced = {};
};

// The logits a sequence was sampled from, by request, token by token.
using CapturedLogits = std::map<std::uint64_t, std::vector<std::vector<float>>>;
// So, too, the states that were handed out.
using CapturedStates = CapturedLogits;

struct GenerationSettings {
  std::uint32_t seed = 0;
  std::uint32_t max_chunk = 1U << 20;  // prompt tokens of one sequence a batch
  bool shuffle = false;                // random chunks, pages, order in the batch
  std::uint32_t in_flight = 1;         // batches submitted before the oldest is collected
  CapturedStates* states = nullptr;    // set: one is wanted with every token that is drawn
};

// A hook that fills `captured`; it runs on the device's thread, so read the
// result only after generate() has returned.
LogitsHook capture_logits(CapturedLogits& captured);

// Throws std::runtime_error if a batch fails.
std::vector<std::vector<std::int32_t>> generate(Device& device, ProgramCache& programs,
                                                const std::vector<DirectRequest>& requests,
                                                const GenerationSettings& settings = {});

// A prompt at once, each token asking how likely the next one is, in slot 0 from page
// 0 on. The last slice draws.
Batch scoring_batch(const std::vector<std::int32_t>& prompt, std::uint32_t page_size,
                    std::int32_t top_logprobs);

// Collects the next ticket, polling for it.
BatchResult wait_for(Device& device, Ticket ticket);

}  // namespace troupe
