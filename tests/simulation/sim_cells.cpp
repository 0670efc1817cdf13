// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_cells.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::sim {
namespace {

constexpr std::uint32_t kRows = 6;

class ChainNetwork final : public Network {
 public:
  ModelShapes shapes() const override { return {}; }
  std::vector<CellType> cells() const override { return {}; }
  std::optional<UnfoldingRule> unfolding() const override { return UnfoldingRule{}; }
  std::vector<WeightSpec> weights() const override { return {}; }
  std::vector<std::string> layer_prefixes() const override { return {}; }
  Program build_program(CellId, ProgramShape, DataType) const override {
    throw std::logic_error("the simulated device runs no programs");
  }
};

}  // namespace

SimDeviceSettings small_cells(const DeviceDescription& decoder) {
  SimDeviceSettings settings;
  settings.description = {
      .name = "simulated cells",
      .page_size = 1,
      .num_slots = kRows,
      .max_batch_tokens = 16,
      .context_length = std::min(decoder.context_length, decoder.num_pages * decoder.page_size),
      .vocabulary_size = decoder.vocabulary_size,
      .cells = {{.name = "step", .state = StateKind::kRows, .result = ResultKind::kToken}}};
  return settings;
}

std::shared_ptr<const Network> chain_network() { return std::make_shared<const ChainNetwork>(); }

SimCells::SimCells(SimDeviceSettings settings, std::shared_ptr<SimDevices> shared, WorkerId worker)
    : settings_(std::move(settings)),
      shared_(std::move(shared)),
      worker_(worker),
      rows_(settings_.description.num_slots) {
  if (!shared_->cells.emplace(worker_, this).second)
    shared_->violations.push_back("two devices of cells of a worker at once");
}

SimCells::~SimCells() { shared_->cells.erase(worker_); }

Ticket SimCells::submit(std::shared_ptr<const Program>, std::shared_ptr<const Batch> batch) {
  check(*batch);
  const auto [fault, done] =
      shared_->begin(worker_, *batch, settings_.batch_time + settings_.token_time * batch->num_tokens());
  queue_.push_back({.batch = std::move(batch), .done = done, .fault = fault});
  return ++num_submitted_;
}

void SimCells::check(const Batch& batch) {
  const DeviceDescription& device = settings_.description;
  const auto report = [&](const SequenceSlice& slice, const std::string& what) {
    shared_->violations.push_back("cells, batch " + std::to_string(batch.id) + ", sequence " +
                                  std::to_string(slice.sequence) + ": " + what);
  };
  std::set<SlotId> written;
  for (const SequenceSlice& slice : batch.slices) {
    if (slice.num_tokens != 1 || slice.num_pages > 0) report(slice, "no single node");
    if (slice.slot >= device.num_slots || !written.insert(slice.slot).second)
      report(slice, "a row that is taken");
    if (slice.context_length + 1 > device.context_length) report(slice, "longer than the context");
    if (shared_->ended.contains(slice.sequence)) report(slice, "it had ended before");
  }
  for (const SequenceSlice& slice : batch.slices)
    for (std::uint32_t i = 0; i < slice.num_inputs; ++i)
      if (const SlotId row = batch.input_rows.at(slice.first_input + i);
          row != slice.slot && written.contains(row))
        report(slice, "a row that is written in the same batch");
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
    result.tokens.push_back(execute(*submitted.batch, i, before));
  return result;
}

std::int32_t SimCells::execute(const Batch& batch, std::size_t index, const std::vector<Row>& before) {
  const SequenceSlice& slice = batch.slices[index];
  Row row;
  std::int32_t token = batch.token_ids[index];
  if (slice.num_inputs > 0) {
    const Row& input = before.at(batch.input_rows.at(slice.first_input));
    row.tokens = input.tokens;
    if (slice.input_from_slot) token = input.drawn;
  }
  row.tokens.push_back(token);
  if (slice.sample)
    row.drawn = sim_token(row.tokens, slice.sampling.seed, slice.suppressed, {}, slice.allowed);
  rows_[slice.slot] = row;
  return row.drawn;
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
