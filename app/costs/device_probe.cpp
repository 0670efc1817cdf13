// SPDX-License-Identifier: Apache-2.0
#include "app/costs/device_probe.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

constexpr std::uint32_t kLongestContext = 1024;  // beyond, costs are extrapolated

}  // namespace

DeviceProbe::DeviceProbe(const LoadedModel& model) : device_(model) {
  const DeviceDescription& about = description();
  pages_each_ = about.num_pages / about.num_slots;
  if (pages_each_ == 0)
    throw std::runtime_error("profile: expected at least a KV page for each of " +
                             std::to_string(about.num_slots) + " sequences, got " +
                             std::to_string(about.num_pages));
}

std::vector<CostSample> DeviceProbe::measure(std::uint32_t num_rounds,
                                             const std::function<void(std::uint32_t)>& on_round) {
  std::vector<std::shared_ptr<const Batch>> batches;
  std::uint32_t longest = 1;
  for (const Mix& mix : grid()) {
    batches.push_back(batch_of(mix));
    longest = std::max({longest, mix.context, mix.prompt_context});
  }
  fill_pages(longest);
  return device_.measure(batches, num_rounds, on_round);
}

// Decodes, prompts and mixtures of both: powers of two at the shortest context,
// of four at the others.
std::vector<DeviceProbe::Mix> DeviceProbe::grid() const {
  const DeviceDescription& about = description();
  const std::uint32_t capacity =
      std::min({about.context_length, pages_each_ * about.page_size, kLongestContext + 1});
  std::vector<std::uint32_t> contexts;
  for (const std::uint32_t context : {16U, 256U, kLongestContext})
    if (context < capacity) contexts.push_back(context);
  if (contexts.empty()) contexts.push_back(0);
  const std::uint32_t most_decodes = std::min(about.num_slots, about.max_batch_tokens);
  std::vector<Mix> mixes;
  for (const std::uint32_t context : contexts) {
    const std::uint32_t factor = context == contexts.front() ? 2 : 4;
    for (std::uint32_t n = 1; n <= most_decodes; n *= factor)
      mixes.push_back({.num_decodes = n, .context = context});
    for (std::uint32_t n = 2; n <= about.max_batch_tokens && n < capacity; n *= factor) {
      const std::uint32_t prompt_context = std::min(context, capacity - n);
      mixes.push_back({.prompt_tokens = n, .prompt_context = prompt_context});
      if (n < 16) continue;
      for (const std::uint32_t decodes : std::set<std::uint32_t>{4U, most_decodes / 2})
        if (decodes > 0 && decodes < about.num_slots && decodes + n <= about.max_batch_tokens)
          mixes.push_back({.num_decodes = decodes, .context = context, .prompt_tokens = n});
    }
  }
  return mixes;
}

// KV that is really there: pages never written would all be one page of zeros.
void DeviceProbe::fill_pages(std::uint32_t num_tokens) {
  const std::uint32_t chunk = description().max_batch_tokens;
  for (std::uint32_t sequence = 0; sequence < description().num_slots; ++sequence)
    for (std::uint32_t first = 0; first < num_tokens; first += chunk) {
      Batch batch;
      add_slice(batch, sequence,
                {.num_tokens = std::min(chunk, num_tokens - first), .context_length = first});
      device_.run(std::move(batch));
    }
}

std::shared_ptr<const Batch> DeviceProbe::batch_of(const Mix& mix) const {
  Batch batch;
  for (std::uint32_t i = 0; i < mix.num_decodes; ++i)
    add_slice(batch, i,
              {.num_tokens = 1, .context_length = mix.context, .input_from_slot = true, .sample = true});
  if (mix.prompt_tokens > 0)
    add_slice(batch, mix.num_decodes,
              {.num_tokens = mix.prompt_tokens, .context_length = mix.prompt_context, .sample = true});
  return std::make_shared<const Batch>(std::move(batch));
}

void DeviceProbe::add_slice(Batch& batch, std::uint32_t sequence, const SequenceStep& step) const {
  device_.add_slice(batch, sequence, step, sequence * pages_each_);
}

}  // namespace troupe
