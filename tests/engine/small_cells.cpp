// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/small_cells.hpp"

#include <algorithm>
#include <set>

#include "tests/engine/small_machine.hpp"

namespace troupe {
namespace {

CellType cell_of(const char* name, ResultKind result, std::uint8_t priority = 0) {
  return {.name = name,
          .state = StateKind::kRows,
          .result = result,
          .vector_size = result == ResultKind::kVector ? 1U : 0U,
          .priority = priority};
}

std::int32_t state_of(CellId cell, std::int32_t token, std::span<const std::int32_t> read) {
  std::vector<std::int32_t> all{static_cast<std::int32_t>(cell), token};
  all.insert(all.end(), read.begin(), read.end());
  return small_token(all);
}

std::int32_t drawn_of(std::int32_t state) { return small_token({&state, 1}); }

CellGraph tree_of(std::span<const std::int32_t> words) {
  CellGraph graph;
  auto joined = graph.add({.cell = 0, .token = words.front(), .is_result = words.size() == 1}, {});
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto leaf = graph.add({.cell = 0, .token = words[i]}, {});
    joined = graph.add({.cell = 1, .is_result = i + 1 == words.size()}, {joined, leaf});
  }
  graph.finish();
  return graph;
}

}  // namespace

std::vector<CellType> small_cells(const UnfoldingRule& rule) {
  if (rule.kind == UnfoldingKind::kTree)
    return {cell_of("leaf", ResultKind::kVector), cell_of("inner", ResultKind::kVector, 1)};
  if (rule.kind == UnfoldingKind::kEncodeDecode)
    return {cell_of("encoder_step", ResultKind::kState), cell_of("decoder_step", ResultKind::kToken, 1)};
  return {cell_of("step", ResultKind::kToken)};
}

std::shared_ptr<const CellGraph> small_graph(const UnfoldingRule& rule,
                                             std::span<const std::int32_t> prompt) {
  if (rule.kind == UnfoldingKind::kTree) return std::make_shared<const CellGraph>(tree_of(prompt));
  if (rule.kind == UnfoldingKind::kChain) return std::make_shared<const CellGraph>(unfold_chain(prompt));
  return std::make_shared<const CellGraph>(unfold_encode_decode(
      prompt, {.source_end = rule.source_end, .decoder_start = rule.decoder_start, .attends = rule.attends}));
}

SmallGraphAnswer small_answer(const CellGraph& graph, std::uint32_t max_tokens) {
  SmallGraphAnswer answer;
  std::vector<std::int32_t> states, read;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    read.clear();
    for (const auto input : graph.inputs(i)) read.push_back(states[input]);
    const CellGraph::Node& node = graph.node(i);
    states.push_back(state_of(node.cell, node.token, read));
    if (node.is_result) answer.vector.push_back(static_cast<float>(states.back()));
  }
  const auto& growth = graph.growth();
  std::int32_t last = states.back();
  for (std::uint32_t i = 0; growth && i < max_tokens; ++i) {
    answer.tokens.push_back(drawn_of(last));
    read = {last};
    for (const auto also : growth->read) read.push_back(states[also]);
    last = state_of(growth->cell, answer.tokens.back(), read);
  }
  return answer;
}

std::string SmallRows::problem(const Batch& batch, std::uint32_t max_nodes) const {
  std::set<SlotId> written;
  for (const SequenceSlice& slice : batch.slices) {
    if (slice.num_tokens != 1 || slice.num_pages > 0) return "a slice that is no single node";
    if (slice.slot >= states.size()) return "a row that there is not";
    if (!written.insert(slice.slot).second) return "two nodes of a batch write one row";
  }
  for (const SequenceSlice& slice : batch.slices)
    for (std::uint32_t i = 0; i < slice.num_inputs; ++i)
      if (const SlotId row = batch.input_rows.at(slice.first_input + i);
          row != slice.slot && written.contains(row))
        return "a node reads a row that another one of its batch writes";
  if (batch.slices.empty() || batch.slices.size() > max_nodes || !batch.copies.empty() ||
      batch.slices.size() != batch.num_tokens())
    return "a batch of cells of the wrong size";
  return {};
}

// All nodes read before any of them writes.
std::string SmallRows::run(const Batch& batch, const CellType& cell, bool loses_rows, BatchResult& result) {
  std::string problem;
  std::vector<std::int32_t> computed;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const SequenceSlice& slice = batch.slices[i];
    std::vector<std::int32_t> read;
    for (std::uint32_t k = 0; k < slice.num_inputs; ++k)
      read.push_back(states.at(batch.input_rows.at(slice.first_input + k)));
    if (std::find(read.begin(), read.end(), kUnwritten) != read.end())
      problem = "sequence " + std::to_string(slice.sequence) + " reads a row that was never written";
    const bool has_word = cell.result != ResultKind::kVector || batch.cell == 0;
    const std::int32_t token = slice.input_from_slot ? drawn.at(batch.input_rows.at(slice.first_input))
                               : has_word            ? batch.token_ids[i]
                                                     : CellGraph::kNoToken;
    computed.push_back(state_of(batch.cell, token, read));
  }
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const SequenceSlice& slice = batch.slices[i];
    if (!loses_rows) states[slice.slot] = computed[i];
    if (slice.sample) drawn[slice.slot] = drawn_of(computed[i]);
    result.tokens.push_back(slice.sample ? drawn_of(computed[i]) : -1);
    if (cell.result == ResultKind::kVector) result.vectors.push_back(static_cast<float>(computed[i]));
  }
  return problem;
}

}  // namespace troupe
