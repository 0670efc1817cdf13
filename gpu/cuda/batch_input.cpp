// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/batch_input.hpp"

#include <algorithm>
#include <vector>

#include "gpu/cuda/kernels/embed.hpp"

namespace troupe::cuda {
namespace {

constexpr std::size_t kPartAlignment = 64;  // bytes

// Hands out one part after the other.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(reinterpret_cast<std::uintptr_t>(base)) {}

  template <typename T>
  void cut(T*& part, std::size_t count) {
    part = reinterpret_cast<T*>(base_ + offset_);
    offset_ += (count * sizeof(T) + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  }
  std::size_t offset() const { return offset_; }

 private:
  std::uintptr_t base_;
  std::size_t offset_ = 0;
};

std::size_t cut(std::byte* base, const BatchCapacity& capacity, BatchInput& input) {
  Cutter cutter(base);
  cutter.cut(input.token_ids, capacity.tokens);
  cutter.cut(input.slots, capacity.tokens);
  cutter.cut(input.places, capacity.tokens);
  cutter.cut(input.previous_pages, capacity.tokens);
  cutter.cut(input.output_rows, capacity.output_rows);
  cutter.cut(input.sample_rows, capacity.output_rows);
  cutter.cut(input.suppressed, capacity.suppressed);
  cutter.cut(input.penalized, capacity.penalized);
  cutter.cut(input.penalized_logits, capacity.penalized);
  cutter.cut(input.biased, capacity.biased);
  cutter.cut(input.biased_logits, capacity.biased);
  cutter.cut(input.masks, capacity.mask_words);
  cutter.cut(input.page_table, capacity.pages);
  for (std::size_t i = 0; i < input.items.size(); ++i) cutter.cut(input.items[i], capacity.items[i]);
  cutter.cut(input.merges, capacity.merges);
  cutter.cut(input.counts, 1);
  cutter.cut(input.slices, capacity.slices);
  cutter.cut(input.tiles, capacity.tiles);
  cutter.cut(input.token_types, capacity.token_types);
  cutter.cut(input.nodes, capacity.nodes);
  cutter.cut(input.input_rows, capacity.input_rows);
  cutter.cut(input.state_rows, capacity.state_rows);
  return cutter.offset();
}

bool hands_out_state(const SequenceSlice& slice) { return slice.sample && slice.wants_state; }

void fill_sample_rows(const Batch& batch, const BatchInput& input) {
  std::uint32_t token = 0;
  std::uint32_t row = 0;
  std::uint32_t num_suppressed = 0;
  std::uint32_t num_penalized = 0;
  std::uint32_t num_logprobs = 0;
  std::uint32_t num_biased = 0;
  std::uint32_t* mask = input.masks;
  for (const SequenceSlice& slice : batch.slices) {
    token += slice.num_tokens;
    if (!slice.sample) continue;
    input.output_rows[row] = token - 1;
    std::copy(slice.suppressed.begin(), slice.suppressed.end(), input.suppressed + num_suppressed);
    const auto count = static_cast<std::uint32_t>(slice.suppressed.size());
    input.sample_rows[row] = {
        .parameters = slice.sampling,
        .position = std::uint64_t{slice.context_length} + slice.num_tokens,
        .first_suppressed = num_suppressed,
        .num_suppressed = count,
        .slot = slice.slot,
        .first_penalized = num_penalized,
        .num_penalized = static_cast<std::uint32_t>(slice.penalized.size()),
        .num_pending = slice.num_pending,
        .first_biased = num_biased,
        .num_biased = static_cast<std::uint32_t>(slice.biased.size()),
        .first_mask_word = slice.allowed.empty() ? -1 : static_cast<std::int32_t>(mask - input.masks),
        .logprobs_row = num_logprobs,
        .scored_token = slice.scored_token};
    std::copy(slice.penalized.begin(), slice.penalized.end(), input.penalized + num_penalized);
    std::copy(slice.biased.begin(), slice.biased.end(), input.biased + num_biased);
    mask = std::copy(slice.allowed.begin(), slice.allowed.end(), mask);
    num_biased += static_cast<std::uint32_t>(slice.biased.size());
    num_suppressed += count;
    num_penalized += static_cast<std::uint32_t>(slice.penalized.size());
    num_logprobs += slice.sampling.wants_logprobs() ? 1 : 0;
    ++row;
  }
}

void fill_tokens(const Batch& batch, const BatchInput& input) {
  std::copy(batch.token_ids.begin(), batch.token_ids.end(), input.token_ids);
  std::uint32_t token = 0;
  for (const SequenceSlice& slice : batch.slices) {
    std::fill_n(input.slots + token, slice.num_tokens, slice.input_from_slot ? slice.slot : kNoSlot);
    token += slice.num_tokens;
  }
}

void fill_places(const Batch& batch, const BatchInput& input) {
  std::vector<TokenPlace> places;
  place_tokens(batch.slices, batch.page_table, places);
  std::copy(places.begin(), places.end(), input.places);
  PageId* previous = input.previous_pages;
  for (const SequenceSlice& slice : batch.slices) {
    for (std::uint32_t i = 0; i < slice.num_tokens; ++i) {
      const auto page = (slice.context_length + i) / static_cast<std::uint32_t>(kKvPageTokens);
      *previous++ = batch.page_table[slice.first_page + (page == 0 ? 0 : page - 1)];
    }
  }
}

// Slices that are whole sequences.
void fill_slices(const Batch& batch, const AttentionPlan& plan, const BatchInput& input) {
  std::uint32_t token = 0;
  BatchRows* rows = input.slices;
  for (const SequenceSlice& slice : batch.slices) {
    *rows++ = {.first_token = token, .num_tokens = slice.num_tokens, .num_padding = slice.num_padding};
    for (std::uint32_t i = 0; i < slice.num_tokens; ++i, ++token) {
      input.places[token] = {.position = i};
      input.token_types[token] = slice.second_text > 0 && i >= slice.second_text ? 1 : 0;
    }
  }
  std::copy(plan.tiles.begin(), plan.tiles.end(), input.tiles);
}

// Slices that are nodes. A token that is not known yet was drawn into the first row that its node reads.
void fill_nodes(const Batch& batch, const BatchInput& input) {
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const SequenceSlice& slice = batch.slices[i];
    input.nodes[i] = {.row = slice.slot, .first_input = slice.first_input, .num_inputs = slice.num_inputs};
    if (slice.input_from_slot) input.slots[i] = batch.input_rows[slice.first_input];
  }
  std::copy(batch.input_rows.begin(), batch.input_rows.end(), input.input_rows);
}

// Rows of state to hand out: of each slice that asks, its last token's. The rest of the capacity repeats row
// 0, which nobody reads.
void fill_state_rows(const Batch& batch, const BatchCapacity& capacity, const BatchInput& input) {
  std::uint32_t token = 0;
  std::uint32_t* row = input.state_rows;
  for (const SequenceSlice& slice : batch.slices) {
    token += slice.num_tokens;
    if (hands_out_state(slice)) *row++ = token - 1;
  }
  std::fill(row, input.state_rows + capacity.state_rows, 0);
}

// Places of padding differ from one another as long as they are fewer than a
// page has tokens; nobody reads them.
void fill_padding(const Batch& batch, const BatchCapacity& capacity, const Padding& padding,
                  const BatchInput& input) {
  for (std::uint32_t i = batch.num_tokens(); i < capacity.tokens; ++i) {
    input.token_ids[i] = -1;
    input.slots[i] = kNoSlot;
    input.places[i] = {.position = i % static_cast<std::uint32_t>(kKvPageTokens), .page = padding.page};
    input.previous_pages[i] = padding.page;
  }
  for (std::uint32_t i = batch.num_tokens(); i < capacity.nodes; ++i) input.nodes[i] = {.row = padding.slot};
  for (std::uint32_t i = batch.num_output_rows(); i < capacity.output_rows; ++i) {
    input.output_rows[i] = 0;
    input.sample_rows[i] = {.parameters = {.temperature = 0.0F}, .slot = padding.slot};
  }
}

}  // namespace

BatchInput BatchInput::at(std::byte* base, const BatchCapacity& capacity) {
  BatchInput input;
  cut(base, capacity, input);
  return input;
}

std::size_t BatchInput::size_bytes(const BatchCapacity& capacity) {
  BatchInput input;
  return cut(nullptr, capacity, input);
}

std::uint32_t num_states(const Batch& batch) {
  return static_cast<std::uint32_t>(std::count_if(batch.slices.begin(), batch.slices.end(), hands_out_state));
}

BatchCapacity capacity_of(const Batch& batch, const AttentionPlan& plan, StateKind state) {
  BatchCapacity capacity{.tokens = batch.num_tokens(),
                         .output_rows = batch.num_output_rows(),
                         .pages = static_cast<std::uint32_t>(batch.page_table.size()),
                         .merges = static_cast<std::uint32_t>(plan.merges.size())};
  for (const SequenceSlice& slice : batch.slices) {
    if (!slice.sample) continue;
    capacity.suppressed += static_cast<std::uint32_t>(slice.suppressed.size());
    capacity.penalized += static_cast<std::uint32_t>(slice.penalized.size());
    capacity.biased += static_cast<std::uint32_t>(slice.biased.size());
    capacity.mask_words += static_cast<std::uint32_t>(slice.allowed.size());
  }
  if (state == StateKind::kPages) capacity.state_rows = num_states(batch);
  for (std::size_t i = 0; i < plan.items.size(); ++i)
    capacity.items[i] = static_cast<std::uint32_t>(plan.items[i].size());
  if (state == StateKind::kRows) {
    capacity.nodes = batch.num_tokens();
    capacity.input_rows = static_cast<std::uint32_t>(batch.input_rows.size());
  }
  if (plan.tiles.empty()) return capacity;
  capacity.slices = static_cast<std::uint32_t>(batch.slices.size());
  capacity.tiles = static_cast<std::uint32_t>(plan.tiles.size());
  capacity.token_types = batch.num_tokens();
  return capacity;
}

void fill(const Batch& batch, const AttentionPlan& plan, const BatchCapacity& capacity,
          const Padding& padding, const BatchInput& input) {
  fill_tokens(batch, input);
  if (capacity.nodes > 0) {
    fill_nodes(batch, input);
  } else if (plan.tiles.empty()) {
    fill_places(batch, input);
  } else {
    fill_slices(batch, plan, input);
  }
  fill_sample_rows(batch, input);
  if (capacity.state_rows > 0) fill_state_rows(batch, capacity, input);
  fill_padding(batch, capacity, padding, input);
  std::copy(batch.page_table.begin(), batch.page_table.end(), input.page_table);
  *input.counts = {.merges = static_cast<std::uint32_t>(plan.merges.size())};
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    std::copy(plan.items[i].begin(), plan.items[i].end(), input.items[i]);
    input.counts->items[i] = static_cast<std::uint32_t>(plan.items[i].size());
  }
  std::copy(plan.merges.begin(), plan.merges.end(), input.merges);
}

}  // namespace troupe::cuda
