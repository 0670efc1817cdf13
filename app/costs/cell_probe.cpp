// SPDX-License-Identifier: Apache-2.0
#include "app/costs/cell_probe.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

// Rows that a node reads besides its own: the other child, or the sources of a decoder that
// attends, which all nodes of the batch share.
constexpr std::uint32_t kSourceRows = 24;

std::uint32_t rows_read_besides(const UnfoldingRule& rule, CellId cell) {
  if (cell == 0) return 0;
  if (rule.kind == UnfoldingKind::kTree) return 1;
  return rule.attends ? kSourceRows : 0;
}

}  // namespace

CellProbe::CellProbe(const LoadedModel& model)
    : device_(model),
      rule_(model.served.unfolding().value_or(UnfoldingRule{})),
      source_words_(model.config.recurrent ? model.config.recurrent->source_vocabulary : 0) {}

std::vector<std::vector<CostSample>> CellProbe::measure(std::uint32_t num_rounds,
                                                        const std::function<void(std::uint32_t)>& on_round) {
  std::vector<std::shared_ptr<const Batch>> batches;
  for (CellId cell = 0; cell < description().cells.size(); ++cell)
    for (std::uint32_t n = 1; n <= max_nodes(cell); n *= 2) batches.push_back(batch_of(cell, n));
  std::vector<CostSample> measured = device_.measure(batches, num_rounds, on_round);
  std::vector<std::vector<CostSample>> samples(description().cells.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    measured[i].shape.decode_keys = 0;  // cells attend to no pages
    samples[batches[i]->cell].push_back(measured[i]);
  }
  return samples;
}

// Those for which there are rows, written and read.
std::uint32_t CellProbe::max_nodes(CellId cell) const {
  const std::uint32_t num_rows = description().num_slots;
  const bool is_inner_tree = rule_.kind == UnfoldingKind::kTree && cell > 0;
  const std::uint32_t num_shared = is_inner_tree ? 0 : rows_read_besides(rule_, cell);
  const std::uint32_t free = num_rows > num_shared ? num_rows - num_shared : 0;
  return std::min(description().max_batch_tokens, is_inner_tree ? free / 2 : free);
}

std::shared_ptr<const Batch> CellProbe::batch_of(CellId cell, std::uint32_t num_nodes) const {
  Batch batch;
  batch.cell = cell;
  const CellType& type = description().cells[cell];
  const bool is_inner_tree = rule_.kind == UnfoldingKind::kTree && cell > 0;
  for (std::uint32_t i = 0; i < num_nodes; ++i) {
    SequenceSlice slice;
    slice.sequence = slice.slot = i;
    slice.num_tokens = 1;
    slice.first_input = static_cast<std::uint32_t>(batch.input_rows.size());
    if (rule_.kind != UnfoldingKind::kTree || cell > 0) batch.input_rows.push_back(i);
    for (std::uint32_t k = 0; k < rows_read_besides(rule_, cell); ++k)
      batch.input_rows.push_back(is_inner_tree ? num_nodes + i : num_nodes + k);
    slice.num_inputs = static_cast<std::uint32_t>(batch.input_rows.size()) - slice.first_input;
    slice.sample = type.result == ResultKind::kToken;
    slice.sampling.temperature = 0;
    batch.slices.push_back(std::move(slice));
    batch.token_ids.push_back(token_of(cell, i));
  }
  return std::make_shared<const Batch>(std::move(batch));
}

// A few words by turns, as many as the vocabulary has: an encoder's are its last ids.
std::int32_t CellProbe::token_of(CellId cell, std::uint32_t node) const {
  constexpr std::uint32_t kFewWords = 7;
  const bool reads_source = rule_.kind == UnfoldingKind::kEncodeDecode && cell == 0;
  const std::uint32_t num_all = description().vocabulary_size;
  const std::uint32_t num_words = reads_source ? source_words_ : num_all - source_words_;
  const std::uint32_t word = node % std::min(kFewWords, num_words);
  return static_cast<std::int32_t>(reads_source ? num_all - 1 - word : word);
}

ProfiledCells profiled_cells(const UnfoldingRule& rule, const DeviceDescription& device,
                             const std::vector<std::vector<CostSample>>& samples) {
  ProfiledCells cells{.graphs = rule.kind == UnfoldingKind::kTree           ? GraphKind::kTree
                                : rule.kind == UnfoldingKind::kEncodeDecode ? GraphKind::kEncodeDecode
                                                                            : GraphKind::kChain,
                      .num_rows = device.num_slots,
                      .types = {}};
  for (std::size_t cell = 0; cell < samples.size(); ++cell)
    cells.types.push_back({.name = device.cells[cell].name,
                           .priority = device.cells[cell].priority,
                           .max_batch = knee_of(samples[cell]),
                           .cost = fit_iteration_cost(samples[cell])});
  return cells;
}

}  // namespace troupe
