// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/batch_check.hpp"

#include <stdexcept>
#include <string>
#include <unordered_map>

namespace troupe {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

std::string name_of_sequence(const SequenceSlice& slice) {
  return "sequence " + std::to_string(slice.sequence) + ": ";
}

void check_fit(const Program* program, const Batch& batch) {
  if (program == nullptr) refuse("a batch with slices, but no program");
  if (program->cell != batch.cell) {
    refuse("a batch of cell " + std::to_string(batch.cell) + ", but a program of cell " +
           std::to_string(program->cell));
  }
  const ProgramShape& shape = program->shape;
  if (batch.num_tokens() > shape.max_tokens || batch.num_output_rows() > shape.max_output_rows) {
    refuse("a batch of " + std::to_string(batch.num_tokens()) + " tokens and " +
           std::to_string(batch.num_output_rows()) + " output rows does not fit its program (" +
           std::to_string(shape.max_tokens) + ", " + std::to_string(shape.max_output_rows) + ")");
  }
}

const CellType& cell_of(const Batch& batch, const DeviceDescription& limits) {
  if (batch.cell >= limits.cells.size()) {
    refuse("cell " + std::to_string(batch.cell) + " does not exist: the network has " +
           std::to_string(limits.cells.size()));
  }
  return limits.cells[batch.cell];
}

// A slice of a cell of no state is a whole sequence, and leaves nothing behind.
void check_stateless(const SequenceSlice& slice, const CellType& cell) {
  const std::string who = name_of_sequence(slice);
  const std::string where = ", but the cell \"" + cell.name + "\" ";
  if (slice.context_length > 0) {
    refuse(who + "a context of " + std::to_string(slice.context_length) + " tokens" + where + "keeps none");
  }
  if (slice.num_pages > 0) {
    refuse(who + std::to_string(slice.num_pages) + " pages" + where + "has none");
  }
  if (slice.input_from_slot) refuse(who + "the input comes from the slot" + where + "has none");
  if (slice.sample) refuse(who + "a token is to be drawn" + where + "gives none");
  if (slice.num_padding >= slice.num_tokens) {
    refuse(who + std::to_string(slice.num_padding) + " of its " + std::to_string(slice.num_tokens) +
           " tokens are padding, at least one must be none");
  }
  const std::uint32_t num_content = slice.num_tokens - slice.num_padding;
  if (slice.second_text >= num_content && slice.second_text > 0) {
    refuse(who + "a second text from token " + std::to_string(slice.second_text) + " on, but it has " +
           std::to_string(num_content));
  }
}

void check_state(const Batch& batch, const SequenceSlice& slice, const DeviceDescription& limits) {
  const std::uint64_t length = std::uint64_t{slice.context_length} + slice.num_tokens;
  const std::string who = name_of_sequence(slice);
  const bool has_pages = limits.cells[batch.cell].state == StateKind::kPages;
  if (slice.slot >= limits.num_slots) {
    refuse(who + "slot " + std::to_string(slice.slot) + " does not exist");
  }
  if (std::uint64_t{slice.first_page} + slice.num_pages > batch.page_table.size() ||
      (has_pages && std::uint64_t{slice.num_pages} * limits.page_size < length)) {
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
  if (!slice.allowed.empty() && slice.allowed.size() != mask_words(limits.vocabulary_size)) {
    refuse(who + "a mask of " + std::to_string(slice.allowed.size()) + " words for a vocabulary of " +
           std::to_string(limits.vocabulary_size));
  }
  if (slice.biased.size() > kMaxBiases) {
    refuse(who + std::to_string(slice.biased.size()) + " biased tokens, at most " +
           std::to_string(kMaxBiases) + " are possible");
  }
  if (slice.second_text > 0) refuse(who + "a second text, which only encoders have");
  if (slice.scored_token >= 0 &&
      (!slice.sample || static_cast<std::uint32_t>(slice.scored_token) >= limits.vocabulary_size)) {
    refuse(who + "token id " + std::to_string(slice.scored_token) + " can't be scored");
  }
}

// A source comes whole, and before all else; a decoder's slice is behind one.
void check_source(const SequenceSlice& slice, const CellType& cell, const DeviceDescription& limits) {
  const std::string who = name_of_sequence(slice);
  if (!reads_source(cell)) {
    const bool has_source = reads_source(limits.cells.front());
    if (slice.source_tokens > slice.context_length || has_source != (slice.source_tokens > 0))
      refuse(who + "a source of " + std::to_string(slice.source_tokens) + " tokens before a context of " +
             std::to_string(slice.context_length) + ", in the cell \"" + cell.name + "\"");
    return;
  }
  if (slice.context_length > 0 || slice.source_tokens > 0)
    refuse(who + "a context in front of a source, in the cell \"" + cell.name + "\"");
  if (slice.input_from_slot || slice.sample)
    refuse(who + "a token is drawn or taken from the slot, but the cell \"" + cell.name + "\" has none");
}

// A node of a graph: one token, and rows of the pool.
void check_node(const Batch& batch, const SequenceSlice& slice, const CellType& cell) {
  const std::string who = name_of_sequence(slice);
  if (slice.num_tokens != 1) {
    refuse(who + std::to_string(slice.num_tokens) + " tokens in a node, which has one");
  }
  if (slice.num_pages > 0) refuse(who + "pages, but the cell \"" + cell.name + "\" keeps rows");
  if (std::uint64_t{slice.first_input} + slice.num_inputs > batch.input_rows.size()) {
    refuse(who + "its input rows are not in the batch");
  }
  if (slice.input_from_slot && slice.num_inputs == 0) {
    refuse(who + "the input comes from an input row, but the node has none");
  }
  if (slice.sample && cell.result != ResultKind::kToken) {
    refuse(who + "a token is to be drawn, but the cell \"" + cell.name + "\" gives none");
  }
  if (slice.scored_token >= 0) refuse(who + "tokens of a cell of rows can't be scored");
}

// A row that a slice writes is read by no other slice, and written by none.
void check_rows(const Batch& batch, const DeviceDescription& limits) {
  std::unordered_map<SlotId, std::size_t> writers;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const SlotId row = batch.slices[i].slot;
    if (!writers.emplace(row, i).second) {
      refuse(name_of_sequence(batch.slices[i]) + "row " + std::to_string(row) + " is another node's, too");
    }
  }
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const SequenceSlice& slice = batch.slices[i];
    for (std::uint32_t input = 0; input < slice.num_inputs; ++input) {
      const SlotId row = batch.input_rows[slice.first_input + input];
      if (row >= limits.num_slots) {
        refuse(name_of_sequence(slice) + "row " + std::to_string(row) + " does not exist");
      }
      const auto writer = writers.find(row);
      if (writer == writers.end() || writer->second == i) continue;
      refuse(name_of_sequence(slice) + "row " + std::to_string(row) + " is written in the same batch");
    }
  }
}

void check_slice(const Batch& batch, const SequenceSlice& slice, const DeviceDescription& limits) {
  const std::uint64_t length = std::uint64_t{slice.context_length} + slice.num_tokens;
  const std::string who = name_of_sequence(slice);
  if (slice.num_tokens == 0) refuse(who + "a slice without tokens");
  if (length > limits.context_length) {
    refuse(who + std::to_string(length) + " tokens, at most " + std::to_string(limits.context_length) +
           " are possible");
  }
  const CellType& cell = cell_of(batch, limits);
  if (cell.state == StateKind::kNone) return check_stateless(slice, cell);
  if (slice.num_padding > 0) refuse(who + "padding, which only encoders have");
  if (cell.state == StateKind::kRows) check_node(batch, slice, cell);
  if (cell.state == StateKind::kPages) check_source(slice, cell, limits);
  check_state(batch, slice, limits);
}

void check_masks(const Batch& batch, const DeviceDescription& limits) {
  if (batch.awaited_masks.empty()) return;
  if (!limits.waits_for_masks) refuse("masks that are not there yet, and this device does not wait for them");
  if (batch.awaited_masks.size() != batch.slices.size()) {
    refuse(std::to_string(batch.awaited_masks.size()) + " masks to wait for, but " +
           std::to_string(batch.slices.size()) + " slices");
  }
  for (std::size_t i = 0; i < batch.slices.size(); ++i)
    if (batch.awaited_masks[i] && !batch.slices[i].draws())
      refuse(name_of_sequence(batch.slices[i]) + "a mask to wait for, and nothing to draw");
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
  cell_of(batch, limits);
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
  if (cell_of(batch, limits).state == StateKind::kRows) check_rows(batch, limits);
  for (const PageId page : batch.page_table) {
    if (page >= limits.num_pages) refuse("page " + std::to_string(page) + " does not exist");
  }
  check_tokens(batch, limits.vocabulary_size);
  check_penalties(batch, limits);
  check_masks(batch, limits);
}

void check_copies(const std::vector<PageCopy>& copies, std::size_t num_device_pages,
                  std::size_t num_host_pages) {
  for (const PageCopy& copy : copies) {
    const bool is_within = copy.is_within();
    if (copy.device_page < num_device_pages &&
        (is_within ? copy.from_page < num_device_pages : copy.host_page < num_host_pages))
      continue;
    refuse("a copy between device page " + std::to_string(copy.device_page) + " and " +
           (is_within ? "device page " + std::to_string(copy.from_page)
                      : "host page " + std::to_string(copy.host_page)) +
           ": there are none such");
  }
}

}  // namespace troupe
