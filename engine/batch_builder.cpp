// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_builder.hpp"

namespace troupe {
namespace {

// The slot's token is read on the device; the entry only keeps its place.
constexpr std::int32_t kTokenOnDevice = 0;

static_assert(SequenceProgress::kMostPending <= kRecentTokens, "a device must remember what is pending");

// One slice a token, each of which asks how likely the next one is.
void add_scored_slices(Batch& batch, const Sequence& sequence, SequenceSlice slice, std::uint32_t num_tokens,
                       std::uint32_t page_size) {
  slice.num_tokens = 1;
  slice.sample = true;
  slice.sampling = {.temperature = 0.0F, .top_logprobs = slice.sampling.top_logprobs};
  for (std::uint32_t i = 0; i < num_tokens; ++i, ++slice.context_length) {
    slice.num_pages = (slice.context_length + page_size) / page_size;
    slice.scored_token = sequence.tokens[slice.context_length + 1];
    batch.slices.push_back(slice);
  }
}

// Where the sequence's pages, as many as are needed, begin in the batch's table. Its slices
// lie side by side and share them: one with holes would list a long context again and again.
std::uint32_t list_pages(Batch& batch, const Sequence& sequence, std::uint32_t num_pages) {
  auto& table = batch.page_table;
  const bool is_listed = !batch.slices.empty() && batch.slices.back().sequence == sequence.id;
  const std::size_t first = is_listed ? batch.slices.back().first_page : table.size();
  const std::size_t num_listed = table.size() - first;
  if (num_listed < num_pages) {
    const auto pages = sequence.pages.begin();
    table.insert(table.end(), pages + static_cast<std::ptrdiff_t>(num_listed), pages + num_pages);
  }
  return static_cast<std::uint32_t>(first);
}

}  // namespace

void add_slice(Batch& batch, const Sequence& sequence, const SequenceStep& step,
               const DeviceDescription& device) {
  const std::uint32_t page_size = device.page_size;
  SequenceSlice slice;
  slice.sequence = sequence.id;
  slice.slot = sequence.slot;
  slice.num_tokens = step.num_tokens;
  slice.context_length = step.context_length;
  slice.num_pages = (step.context_length + step.num_tokens + page_size - 1) / page_size;
  slice.first_page = list_pages(batch, sequence, slice.num_pages);
  slice.input_from_slot = step.input_from_slot;
  if (!step.reads_source) slice.source_tokens = sequence.progress.num_source();
  slice.sample = step.sample;
  slice.sampling = sequence.ticket->sampling;
  if (sequence.draws_again) slice.sampling.seed ^= kSeedOfSecondDraws;
  const std::uint32_t num_drawn = sequence.num_generated() + sequence.progress.num_pending();
  if (step.sample && num_drawn < sequence.ticket->min_tokens)
    slice.suppressed = sequence.ticket->suppressed_early;
  if (step.sample) slice.biased = sequence.ticket->biased;
  if (step.sample && sequence.is_mask_known()) {
    slice.allowed = *sequence.allowed;
    slice.allowed.resize(mask_words(device.vocabulary_size));  // a model may have more ids than its tokenizer
  }
  if (step.sample && sequence.penalized) {
    slice.penalized = sequence.penalized->tokens();
    slice.num_pending = sequence.progress.num_pending();
  }
  if (step.scores) {
    add_scored_slices(batch, sequence, std::move(slice), step.num_tokens, page_size);
  } else {
    batch.slices.push_back(std::move(slice));
  }
  if (step.input_from_slot) {
    batch.token_ids.push_back(kTokenOnDevice);
    return;
  }
  const auto first = sequence.tokens.begin() + step.context_length;
  batch.token_ids.insert(batch.token_ids.end(), first, first + step.num_tokens);
}

}  // namespace troupe
