// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_cells.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::sim {
namespace {

constexpr std::int32_t kDecoderStart = 1;
constexpr std::uint32_t kMostChildren = 3;

class CellNetwork final : public Network {
 public:
  explicit CellNetwork(UnfoldingKind kind) : kind_(kind) {}

  ModelShapes shapes() const override { return {}; }
  std::vector<CellType> cells() const override { return {}; }
  std::optional<UnfoldingRule> unfolding() const override {
    UnfoldingRule rule{.kind = kind_};
    if (kind_ == UnfoldingKind::kEncodeDecode) {
      rule.decoder_start = kDecoderStart;
      rule.attends = true;
    }
    if (kind_ == UnfoldingKind::kTree) rule.max_children = kMostChildren;
    return rule;
  }
  std::vector<WeightSpec> weights() const override { return {}; }
  std::vector<std::string> layer_prefixes() const override { return {}; }
  Program build_program(CellId, ProgramShape, DataType) const override {
    throw std::logic_error("the simulated device runs no programs");
  }

 private:
  UnfoldingKind kind_;
};

CellType cell_of(const char* name, ResultKind result, std::uint8_t priority = 0) {
  return {.name = name,
          .state = StateKind::kRows,
          .result = result,
          .vector_size = result == ResultKind::kVector ? 1U : 0U,
          .priority = priority};
}

std::vector<CellType> cells_of(UnfoldingKind kind) {
  if (kind == UnfoldingKind::kTree)
    return {cell_of("leaf", ResultKind::kVector), cell_of("inner", ResultKind::kVector, 1)};
  if (kind == UnfoldingKind::kEncodeDecode)
    return {cell_of("encoder_step", ResultKind::kState), cell_of("decoder_step", ResultKind::kToken, 1)};
  return {cell_of("step", ResultKind::kToken)};
}

// One a request of a chain; others need as many as they have leaves or source tokens.
std::uint32_t num_rows_of(UnfoldingKind kind) { return kind == UnfoldingKind::kChain ? 6 : 48; }

const char* name_of(UnfoldingKind kind) {
  if (kind == UnfoldingKind::kTree) return "simulated trees";
  return kind == UnfoldingKind::kChain ? "simulated cells" : "simulated decoders";
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15ULL)) * 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 31U);
}

}  // namespace

SimCellSettings small_cells(const DeviceDescription& decoder, UnfoldingKind kind) {
  SimCellSettings settings{.kind = kind, .device = {}};
  settings.device.description = {
      .name = name_of(kind),
      .page_size = 1,
      .num_slots = num_rows_of(kind),
      .max_batch_tokens = 16,
      .context_length = std::min(decoder.context_length, decoder.num_pages * decoder.page_size),
      .vocabulary_size = decoder.vocabulary_size,
      .cells = cells_of(kind)};
  return settings;
}

std::shared_ptr<const Network> cell_network(UnfoldingKind kind) {
  return std::make_shared<const CellNetwork>(kind);
}

std::uint64_t sim_node(std::int32_t token, std::span<const std::uint64_t> children) {
  std::uint64_t state = mixed(17, static_cast<std::uint64_t>(token + 2));
  for (const std::uint64_t child : children) state = mixed(state, child);
  return state;
}

float sim_number(std::uint64_t node) { return static_cast<float>(node % 65536); }

SimCells::SimCells(SimCellSettings settings, std::shared_ptr<SimDevices> shared, WorkerId worker)
    : settings_(std::move(settings)),
      shared_(std::move(shared)),
      worker_(worker),
      rows_(settings_.device.description.num_slots) {
  if (!shared_->cells.emplace(std::pair(worker_, settings_.kind), this).second)
    shared_->violations.push_back("two devices of a model of cells of a worker at once");
}

SimCells::~SimCells() { shared_->cells.erase({worker_, settings_.kind}); }

Ticket SimCells::submit(std::shared_ptr<const Program>, std::shared_ptr<const Batch> batch) {
  check(*batch);
  const auto [fault, done] = shared_->begin(
      worker_, *batch, settings_.device.batch_time + settings_.device.token_time * batch->num_tokens());
  queue_.push_back({.batch = std::move(batch), .done = done, .fault = fault});
  return ++num_submitted_;
}

void SimCells::check(const Batch& batch) {
  const DeviceDescription& device = settings_.device.description;
  std::set<SlotId> written;
  for (const SequenceSlice& slice : batch.slices) {
    if (slice.num_tokens != 1 || slice.num_pages > 0) report(batch, slice, "no single node");
    if (slice.slot >= device.num_slots || !written.insert(slice.slot).second)
      report(batch, slice, "a row that is taken");
    if (slice.context_length + 1 > device.context_length) report(batch, slice, "longer than the context");
    if (shared_->ended.contains(slice.sequence)) report(batch, slice, "it had ended before");
  }
  for (const SequenceSlice& slice : batch.slices)
    for (std::uint32_t i = 0; i < slice.num_inputs; ++i)
      if (const SlotId row = batch.input_rows.at(slice.first_input + i);
          row != slice.slot && written.contains(row))
        report(batch, slice, "a row that is written in the same batch");
  if (batch.slices.empty() || batch.slices.size() > device.max_batch_tokens)
    shared_->violations.push_back("cells, batch " + std::to_string(batch.id) + ": wrong size");
}

Ticket SimCells::completed() const noexcept {
  const TimePoint now = shared_->now();
  Ticket ticket = num_collected_;
  for (const auto& submitted : queue_) {
    if (submitted.done > now) break;
    ticket += 1;
  }
  return ticket;
}

BatchResult SimCells::collect(Ticket ticket) {
  if (ticket != num_collected_ + 1 || ticket > completed()) throw std::logic_error("collected out of order");
  const Submitted submitted = std::move(queue_.front());
  queue_.pop_front();
  num_collected_ += 1;
  if (submitted.fault == Fault::kThrowInCollect) throw std::runtime_error("simulated failure of collect");
  BatchResult result;
  result.batch_id = submitted.batch->id;
  if (submitted.fault == Fault::kBatchError) {
    result.error = "simulated failure of a batch";
    return result;
  }
  const std::vector<Row> before = rows_;
  for (std::size_t i = 0; i < submitted.batch->slices.size(); ++i)
    execute(*submitted.batch, i, before, result);
  return result;
}

void SimCells::execute(const Batch& batch, std::size_t index, const std::vector<Row>& before,
                       BatchResult& result) {
  const SequenceSlice& slice = batch.slices[index];
  Row row{.cell = batch.cell, .tokens = {}};
  if (settings_.kind == UnfoldingKind::kTree) {
    run_node(batch, index, before, row);
    result.vectors.push_back(sim_number(row.node));
  } else {
    run_step(batch, index, before, row);
  }
  rows_[slice.slot] = row;
  result.tokens.push_back(row.drawn);
}

void SimCells::run_node(const Batch& batch, std::size_t index, const std::vector<Row>& before,
                        Row& row) const {
  const SequenceSlice& slice = batch.slices[index];
  std::vector<std::uint64_t> children;
  for (std::uint32_t i = 0; i < slice.num_inputs; ++i)
    children.push_back(before.at(batch.input_rows.at(slice.first_input + i)).node);
  row.node = sim_node(batch.cell == 0 ? batch.token_ids[index] : -1, children);
}

void SimCells::run_step(const Batch& batch, std::size_t index, const std::vector<Row>& before, Row& row) {
  const SequenceSlice& slice = batch.slices[index];
  std::int32_t token = batch.token_ids[index];
  bool begins = false;
  if (slice.num_inputs > 0) {
    const Row& input = before.at(batch.input_rows.at(slice.first_input));
    row.tokens = input.tokens;
    begins = input.cell != batch.cell;
    if (slice.input_from_slot) token = input.drawn;
  }
  if (batch.cell > 0) check_source(batch, index, before);
  if (begins && token != kDecoderStart) report(batch, slice, "a decoder that begins with another token");
  if (!begins) row.tokens.push_back(token);
  if (slice.sample)
    row.drawn = sim_token(row.tokens, slice.sampling.seed, slice.suppressed, {}, slice.allowed);
}

// A decoder's inputs behind the first are the encoder's states of its source, in their order.
void SimCells::check_source(const Batch& batch, std::size_t index, const std::vector<Row>& before) {
  const SequenceSlice& slice = batch.slices[index];
  const auto& behind = before.at(batch.input_rows.at(slice.first_input)).tokens;
  if (slice.num_inputs < 2) report(batch, slice, "a decoder without a source");
  for (std::uint32_t i = 1; i < slice.num_inputs; ++i) {
    const Row& state = before.at(batch.input_rows.at(slice.first_input + i));
    const bool is_prefix = state.cell == 0 && state.tokens.size() == i && i <= behind.size() &&
                           std::equal(state.tokens.begin(), state.tokens.end(), behind.begin());
    if (!is_prefix) report(batch, slice, "it attends to a row that is none of its source");
  }
}

void SimCells::report(const Batch& batch, const SequenceSlice& slice, const std::string& what) {
  shared_->violations.push_back(std::string(description().name) + ", batch " + std::to_string(batch.id) +
                                ", sequence " + std::to_string(slice.sequence) + ": " + what);
}

TimePoint SimCells::next_completion() const {
  const std::size_t num_told = num_rung_ > num_collected_ ? num_rung_ - num_collected_ : 0;
  return num_told < queue_.size() ? queue_[num_told].done : TimePoint::max();
}

void SimCells::ring_if_due() {
  if (completed() <= num_rung_) return;
  num_rung_ = completed();
  if (listener_) listener_();
}

}  // namespace troupe::sim
