// SPDX-License-Identifier: Apache-2.0
#include "gpu/batch_check.hpp"

#include <stdexcept>
#include <string>

namespace troupe {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

std::string name_of_sequence(const SequenceSlice& slice) {
  return "sequence " + std::to_string(slice.sequence) + ": ";
}

void check_fit(const Program* program, const Batch& batch) {
  if (program == nullptr) refuse("a batch with slices, but no program");
  const ProgramShape& shape = program->shape;
  if (batch.num_tokens() > shape.max_tokens || batch.num_output_rows() > shape.max_output_rows) {
    refuse("a batch of " + std::to_string(batch.num_tokens()) + " tokens and " +
           std::to_string(batch.num_output_rows()) + " output rows does not fit its program (" +
           std::to_string(shape.max_tokens) + ", " + std::to_string(shape.max_output_rows) + ")");
  }
}

void check_slice(const Batch& batch, const SequenceSlice& slice, const DeviceDescription& limits) {
  const std::uint64_t length = std::uint64_t{slice.context_length} + slice.num_tokens;
  const std::string who = name_of_sequence(slice);
  if (slice.num_tokens == 0) refuse(who + "a slice without tokens");
  if (slice.slot >= limits.num_slots) {
    refuse(who + "slot " + std::to_string(slice.slot) + " does not exist");
  }
  if (length > limits.context_length) {
    refuse(who + std::to_string(length) + " tokens, at most " + std::to_string(limits.context_length) +
           " are possible");
  }
  if (std::uint64_t{slice.first_page} + slice.num_pages > batch.page_table.size() ||
      std::uint64_t{slice.num_pages} * limits.page_size < length) {
    refuse(who + "its pages do not hold " + std::to_string(length) + " tokens");
  }
  if (slice.input_from_slot && slice.num_tokens != 1) {
    refuse(who + "the input comes from the slot, but the slice has " + std::to_string(slice.num_tokens) +
           " tokens");
  }
  if (slice.num_pending > kRecentTokens) {
    refuse(who + std::to_string(slice.num_pending) + " tokens are pending, at most " +
           std::to_string(kRecentTokens) + " are remembered");
  }
  if (slice.scored_token >= 0 &&
      (!slice.sample || static_cast<std::uint32_t>(slice.scored_token) >= limits.vocabulary_size)) {
    refuse(who + "token id " + std::to_string(slice.scored_token) + " can't be scored");
  }
}

void check_penalties(const Batch& batch, const DeviceDescription& limits) {
  if (const std::uint64_t count = batch.num_penalized_tokens(); count > limits.max_penalized_tokens) {
    refuse("the slices list " + std::to_string(count) + " penalized tokens, at most " +
           std::to_string(limits.max_penalized_tokens) + " are possible in a batch");
  }
}

void check_tokens(const Batch& batch, std::uint32_t vocabulary) {
  std::size_t token = 0;
  for (const SequenceSlice& slice : batch.slices) {
    const std::size_t end = token + slice.num_tokens;
    for (; token < end; ++token) {
      const std::int32_t id = batch.token_ids[token];
      if (slice.input_from_slot || (id >= 0 && static_cast<std::uint32_t>(id) < vocabulary)) continue;
      refuse(name_of_sequence(slice) + "token id " + std::to_string(id) + " is outside the vocabulary of " +
             std::to_string(vocabulary));
    }
  }
}

}  // namespace

void check_batch(const Program* program, const Batch& batch, const DeviceDescription& limits) {
  if (!batch.slices.empty()) check_fit(program, batch);
  std::uint64_t num_tokens = 0;
  for (const auto& slice : batch.slices) {
    check_slice(batch, slice, limits);
    num_tokens += slice.num_tokens;
  }
  if (num_tokens != batch.token_ids.size()) {
    refuse("the slices advance " + std::to_string(num_tokens) + " tokens, the batch has " +
           std::to_string(batch.token_ids.size()));
  }
  for (const PageId page : batch.page_table) {
    if (page >= limits.num_pages) refuse("page " + std::to_string(page) + " does not exist");
  }
  check_tokens(batch, limits.vocabulary_size);
  check_penalties(batch, limits);
}

}  // namespace troupe
