// SPDX-License-Identifier: Apache-2.0
#include "generation.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "gpu/direct_device.hpp"

namespace troupe {
namespace {

struct Sequence {
  std::uint64_t id = 0;
  const DirectRequest* request = nullptr;
  std::vector<PageId> pages;
  std::uint32_t num_prefilled = 0;
  std::uint32_t num_sampled = 0;

  bool is_finished() const { return num_sampled == request->num_new; }
};

struct InFlight {
  Ticket ticket = 0;
  std::shared_ptr<const Batch> batch;
};

class Generation {
 public:
  Generation(Device& device, ProgramCache& programs, const std::vector<DirectRequest>& requests,
             const GenerationSettings& settings)
      : device_(device, &programs), settings_(settings), random_(settings.seed) {
    give_out_pages(requests);
    tokens_.resize(requests.size());
  }

  std::vector<std::vector<std::int32_t>> run() {
    for (std::uint32_t iteration = 0; !is_submitted(); ++iteration) {
      if (auto batch = form_batch(iteration); !batch->slices.empty()) submit(std::move(batch));
      while (in_flight_.size() >= settings_.in_flight) collect();
    }
    while (!in_flight_.empty()) collect();
    return std::move(tokens_);
  }

 private:
  void give_out_pages(const std::vector<DirectRequest>& requests) {
    const auto& description = device_.description();
    std::vector<PageId> free(description.num_pages);
    std::iota(free.begin(), free.end(), 0U);
    if (settings_.shuffle) std::shuffle(free.begin(), free.end(), random_);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Sequence sequence{.id = i, .request = &requests[i], .pages = {}};
      const std::size_t length = requests[i].prompt.size() + requests[i].num_new;
      const std::size_t num_pages = (length + description.page_size - 1) / description.page_size;
      if (free.size() < num_pages) throw std::runtime_error("the test needs more pages");
      sequence.pages.assign(free.end() - static_cast<std::ptrdiff_t>(num_pages), free.end());
      free.resize(free.size() - num_pages);
      sequences_.push_back(std::move(sequence));
    }
  }

  bool is_submitted() const {
    return std::all_of(sequences_.begin(), sequences_.end(), [](const auto& s) { return s.is_finished(); });
  }

  std::shared_ptr<Batch> form_batch(std::uint32_t iteration) {
    auto batch = std::make_shared<Batch>();
    batch->id = iteration;
    std::vector<Sequence*> order;
    for (auto& sequence : sequences_) {
      if (!sequence.is_finished() && sequence.request->first_iteration <= iteration) {
        order.push_back(&sequence);
      }
    }
    if (settings_.shuffle) std::shuffle(order.begin(), order.end(), random_);
    std::uint32_t budget = device_.description().max_batch_tokens;
    for (Sequence* sequence : order) {
      if (budget == 0) break;
      budget -= add_slice(*batch, *sequence, budget);
    }
    return batch;
  }

  std::uint32_t add_slice(Batch& batch, Sequence& sequence, std::uint32_t budget) {
    const auto& prompt = sequence.request->prompt;
    const auto prompt_length = static_cast<std::uint32_t>(prompt.size());
    SequenceSlice slice{.sequence = sequence.id,
                        .slot = static_cast<SlotId>(sequence.id),
                        .first_page = static_cast<std::uint32_t>(batch.page_table.size()),
                        .num_pages = static_cast<std::uint32_t>(sequence.pages.size()),
                        .sampling = sequence.request->sampling,
                        .suppressed = {}};
    if (sequence.num_prefilled < prompt_length) {
      std::uint32_t chunk = std::min({prompt_length - sequence.num_prefilled, settings_.max_chunk, budget});
      if (settings_.shuffle) chunk = 1 + random_() % chunk;
      slice.num_tokens = chunk;
      slice.context_length = sequence.num_prefilled;
      const auto first = prompt.begin() + sequence.num_prefilled;
      batch.token_ids.insert(batch.token_ids.end(), first, first + chunk);
      sequence.num_prefilled += chunk;
      slice.sample = sequence.num_prefilled == prompt_length;
    } else {
      slice.num_tokens = 1;
      slice.context_length = prompt_length + sequence.num_sampled - 1;
      slice.sample = true;
      const auto& forced = sequence.request->forced;
      if (!forced.empty() && forced.size() + 1 < sequence.request->num_new)
        throw std::logic_error("tokens are forced for a part of the answer only");
      const auto& known = forced.empty() ? tokens_[sequence.id] : forced;
      // The host may know the token already; then either way must do, unless it is not the one that was
      // drawn.
      const bool is_known = known.size() >= sequence.num_sampled;
      slice.input_from_slot = !is_known || (forced.empty() && settings_.shuffle && random_() % 2 == 0);
      batch.token_ids.push_back(slice.input_from_slot ? 0 : known[sequence.num_sampled - 1]);
    }
    if (slice.sample && slice.sampling.has_penalties()) {
      slice.penalized = penalized_tokens(sequence);
      slice.num_pending = sequence.num_sampled - static_cast<std::uint32_t>(tokens_[sequence.id].size());
    }
    slice.wants_state = slice.sample && settings_.states != nullptr;
    sequence.num_sampled += slice.sample ? 1 : 0;
    batch.page_table.insert(batch.page_table.end(), sequence.pages.begin(), sequence.pages.end());
    batch.slices.push_back(slice);
    return slice.num_tokens;
  }

  // In no particular order, with what is known of the answer.
  std::vector<PenalizedToken> penalized_tokens(const Sequence& sequence) {
    std::map<std::int32_t, std::uint32_t> counts;
    if (sequence.request->sampling.repetition_penalty != 1.0F) {
      for (const std::int32_t id : sequence.request->prompt) counts.emplace(id, 0);
    }
    for (const std::int32_t id : tokens_[sequence.id]) counts[id] += 1;
    std::vector<PenalizedToken> tokens;
    for (const auto& [id, number] : counts) tokens.push_back({id, number});
    if (settings_.shuffle) std::shuffle(tokens.begin(), tokens.end(), random_);
    return tokens;
  }

  void submit(std::shared_ptr<Batch> batch) { in_flight_.push_back({device_.submit(batch), batch}); }

  void collect() {
    const auto [ticket, batch] = std::move(in_flight_.front());
    in_flight_.pop_front();
    const BatchResult result = device_.wait_for(ticket);
    if (result.batch_id != batch->id || result.tokens.size() != batch->slices.size()) {
      throw std::runtime_error("a result does not belong to its batch");
    }
    for (std::size_t i = 0; i < batch->slices.size(); ++i) {
      const auto& slice = batch->slices[i];
      if (slice.sample) tokens_[slice.sequence].push_back(result.tokens[i]);
    }
    if (settings_.states != nullptr) capture_states(*batch, result.states);
  }

  void capture_states(const Batch& batch, std::span<const float> states) {
    const std::size_t width = states.size() / std::max(1U, batch.num_output_rows());
    for (const auto& slice : batch.slices) {
      if (!slice.wants_state) continue;
      (*settings_.states)[slice.sequence].emplace_back(states.begin(),
                                                       states.begin() + static_cast<std::ptrdiff_t>(width));
      states = states.subspan(width);
    }
  }

  DirectDevice device_;
  GenerationSettings settings_;
  std::mt19937 random_;
  std::vector<Sequence> sequences_;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::deque<InFlight> in_flight_;
};

}  // namespace

LogitsHook capture_logits(CapturedLogits& captured) {
  return [&captured](const Batch& batch, std::span<const float> logits) {
    const std::size_t vocabulary = logits.size() / std::max(1U, batch.num_output_rows());
    std::size_t row = 0;
    for (const auto& slice : batch.slices) {
      if (!slice.sample) continue;
      const auto values = logits.subspan(row++ * vocabulary, vocabulary);
      captured[slice.sequence].emplace_back(values.begin(), values.end());
    }
  };
}

std::vector<std::vector<std::int32_t>> generate(Device& device, ProgramCache& programs,
                                                const std::vector<DirectRequest>& requests,
                                                const GenerationSettings& settings) {
  return Generation(device, programs, requests, settings).run();
}

Batch scoring_batch(const std::vector<std::int32_t>& prompt, std::uint32_t page_size,
                    std::int32_t top_logprobs) {
  Batch batch{.id = 1, .slices = {}, .token_ids = prompt, .page_table = {}};
  const auto length = static_cast<std::uint32_t>(prompt.size());
  for (PageId page = 0; page * page_size < length; ++page) batch.page_table.push_back(page);
  for (std::uint32_t i = 0; i < length; ++i)
    batch.slices.push_back({.num_tokens = 1,
                            .context_length = i,
                            .num_pages = i / page_size + 1,
                            .sample = true,
                            .sampling = {.temperature = 0.0F, .top_logprobs = top_logprobs},
                            .suppressed = {},
                            .scored_token = i + 1 < length ? prompt[i + 1] : -1});
  return batch;
}

BatchResult wait_for(Device& device, Ticket ticket) {
  while (device.completed() < ticket) std::this_thread::yield();
  return device.collect(ticket);
}

}  // namespace troupe
