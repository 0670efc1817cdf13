// SPDX-License-Identifier: Apache-2.0
// The part of the core that runs in every batch: who joins, which cell is next, what its
// results make of the requests.
#include <algorithm>
#include <utility>

#include "engine/cell_core.hpp"

namespace troupe {
namespace {

// The node's token is read on the device, or it has none; the entry only keeps its place.
constexpr std::int32_t kNoTokenHere = 0;

}  // namespace

void CellCore::advance() {
  if (options_.serving.cell_batching == CellBatching::kWholeGraphs) tell_ends();
  admit_waiting();
  if (options_.shares_workers) return;
  for (WorkerId id = 0; id < workers_.size(); ++id)
    if (workers_[id].health.is_up)
      while (workers_[id].in_flight.size() < options_.serving.max_in_flight && submit(id)) {
      }
}

// One batch of one cell type. False: nothing is ready there.
bool CellCore::submit(WorkerId id) {
  Worker& worker = workers_[id];
  const std::vector<Arrival> participants = choose_participants(worker);
  const std::vector<CellLoad> loads = loads_of(worker, participants);
  const auto cell = worker.turns.next(loads);
  if (!cell) return false;
  SubmitBatch command{.worker = id,
                      .epoch = worker.health.epoch,
                      .batch_id = ++last_batch_,
                      .cell = static_cast<CellId>(*cell)};
  worker.in_flight.push_back(take_off(worker, command.cell, participants, command));
  worker.turns.submitted(*cell, loads);
  out_->push_back(std::move(command));
  return true;
}

// Those among which a batch finds its nodes, the oldest first.
std::vector<CellCore::Arrival> CellCore::choose_participants(const Worker& worker) const {
  std::vector<Arrival> participants = worker.running;
  if (suspects_.is_empty()) {
    if (options_.serving.cell_batching == CellBatching::kInstances) keep_next_instance(participants);
    return participants;
  }
  std::erase_if(participants, [this](Arrival arrival) { return runs_.at(arrival).is_paused; });
  std::vector<SequenceId> running, in_flight;
  for (const Arrival arrival : participants) running.push_back(runs_.at(arrival).ticket->sequence);
  for (const Flight& flight : worker.in_flight)
    for (const FlightEntry& entry : flight.entries) in_flight.push_back(entry.id);
  std::vector<Arrival> chosen;
  for (const std::size_t index : suspects_.choose_participants(running, in_flight))
    chosen.push_back(participants[index]);
  return chosen;
}

// Of those that have something to run, the one whose last batch is longest ago.
void CellCore::keep_next_instance(std::vector<Arrival>& participants) const {
  const auto turn_of = [this](Arrival arrival) {
    const Run& run = runs_.at(arrival);
    bool is_ready = false;
    for (CellId cell = 0; cell < cells_.size(); ++cell) is_ready = is_ready || num_ready(run, cell) > 0;
    return std::pair(!is_ready, run.last_batch);
  };
  const auto next = std::min_element(participants.begin(), participants.end(),
                                     [&](Arrival a, Arrival b) { return turn_of(a) < turn_of(b); });
  if (next != participants.end()) participants = {*next};
}

// What pads a graph in front goes first.
std::uint32_t CellCore::num_ready(const Run& run, CellId cell) const {
  if (run.is_paused) return 0;
  if (run.num_padding > 0) return run.progress.graph().node(0).cell == cell ? 1 : 0;
  return run.held ? 0 : run.progress.num_ready(cell);
}

// More nodes than fill a batch of each cell are not counted.
std::vector<CellLoad> CellCore::loads_of(const Worker& worker,
                                         const std::vector<Arrival>& participants) const {
  std::vector<CellLoad> loads(cells_.size());
  for (CellId cell = 0; cell < cells_.size(); ++cell)
    loads[cell] = {.max_batch = max_batch_of(worker, cell),
                   .min_batch = std::min(options_.serving.min_cell_batch, max_batch_of(worker, cell)),
                   .num_in_flight = num_batches_of(cell),
                   .priority = cells_[cell].priority};
  const auto is_full = [](const CellLoad& load) { return load.num_ready >= load.max_batch; };
  for (const Arrival arrival : participants) {
    if (std::all_of(loads.begin(), loads.end(), is_full)) break;
    const Run& run = runs_.at(arrival);
    for (CellId cell = 0; cell < cells_.size(); ++cell) loads[cell].num_ready += num_ready(run, cell);
  }
  return loads;
}

// Whole graphs have one size for all their cells.
std::uint32_t CellCore::max_batch_of(const Worker& worker, CellId cell) const {
  const bool is_limited =
      options_.serving.cell_batching == CellBatching::kCells && cell < options_.max_cell_batches.size();
  return is_limited ? std::min(worker.max_nodes, options_.max_cell_batches[cell]) : worker.max_nodes;
}

// In flight, on any worker.
std::uint32_t CellCore::num_batches_of(CellId cell) const {
  std::uint32_t count = 0;
  for (const Worker& worker : workers_)
    for (const Flight& flight : worker.in_flight) count += flight.cell == cell ? 1 : 0;
  return count;
}

// Nodes that become ready by this batch are in none before the next.
CellCore::Flight CellCore::take_off(Worker& worker, CellId cell, const std::vector<Arrival>& participants,
                                    SubmitBatch& command) {
  Flight flight{.batch_id = command.batch_id, .submitted = now_, .cell = cell, .entries = {}};
  auto batch = std::make_shared<Batch>();
  batch->id = command.batch_id;
  batch->cell = cell;
  const std::uint32_t max_batch = max_batch_of(worker, cell);
  std::size_t num_penalized = 0;
  std::vector<Arrival> padded;
  for (const Arrival arrival : participants) {
    Run& run = runs_.at(arrival);
    const std::uint32_t num_ready = this->num_ready(run, cell);
    const bool is_padded = run.num_padding > 0 ? num_ready > 0 : is_padded_behind(run, cell);
    if (is_padded) padded.push_back(arrival);
    if (is_padded || num_ready == 0) continue;
    run.last_batch = command.batch_id;
    num_penalized += run.penalized ? run.penalized->tokens().size() : 0;
    if (num_penalized > worker.device.max_penalized_tokens && !flight.entries.empty()) break;
    for (std::uint32_t i = 0; i < num_ready && flight.entries.size() < max_batch; ++i) {
      const std::uint32_t ordinal = run.progress.num_submitted();
      const std::uint32_t num_drawn = run.progress.num_drawn() + run.progress.num_pending();
      const GraphProgress::Step step = run.progress.submit(cell);
      command.shape.num_tokens += 1;
      command.shape.num_sequences += 1;
      command.shape.num_output_rows += step.draw ? 1 : 0;
      flight.num_draws += step.draw ? 1 : 0;
      if (options_.makes_batches) {
        add_slice(*batch, run, step);
        if (step.draw && num_drawn < run.ticket->min_tokens)
          batch->slices.back().suppressed = run.ticket->suppressed_early;
      } else {
        command.steps.push_back({.sequence = run.ticket->sequence, .samples = step.draw.has_value()});
      }
      flight.entries.push_back({.run = arrival,
                                .number = run.number,
                                .id = run.ticket->sequence,
                                .ordinal = ordinal,
                                .step = step});
    }
    if (flight.entries.size() == max_batch) break;
  }
  add_padding(padded, *batch, command.shape);
  flight.num_nodes = command.shape.num_tokens;
  if (options_.makes_batches) command.batch = std::move(batch);
  return flight;
}

// It draws nothing more, but others of its batch do.
bool CellCore::is_padded_behind(const Run& run, CellId cell) const {
  if (!batches_whole_graphs() || run.is_paused) return false;
  const auto& growth = run.progress.graph().growth();
  if (!growth || growth->cell != cell || run.num_padding > 0) return false;
  return run.held || run.progress.num_drawn() + run.progress.num_pending() >= run.progress.max_drawn();
}

// Steps that nothing comes of, behind the batch's nodes. In front of a graph's first node they
// write the row that this one writes without reading it; behind the last they go on drawing.
void CellCore::add_padding(const std::vector<Arrival>& padded, Batch& batch, IterationShape& shape) {
  for (const Arrival arrival : padded) {
    Run& run = runs_.at(arrival);
    const CellGraph& graph = run.progress.graph();
    const bool is_in_front = run.num_padding > 0;
    shape.num_tokens += 1;
    shape.num_sequences += 1;
    shape.num_output_rows += is_in_front ? 0 : 1;
    run.num_padding -= is_in_front ? 1 : 0;
    if (!options_.makes_batches) continue;
    if (is_in_front) {
      SequenceSlice& slice = batch.slices.emplace_back();
      slice.sequence = run.ticket->sequence;
      slice.slot = run.rows[graph.row(0)];
      slice.num_tokens = 1;
      slice.first_input = static_cast<std::uint32_t>(batch.input_rows.size());
      batch.token_ids.push_back(graph.node(0).token);
    } else {
      const auto behind = static_cast<CellGraph::NodeIndex>(graph.size());
      add_slice(batch, run, {.node = behind, .token = -1, .input_from_slot = true, .draw = {}});
      batch.slices.back().sample = true;
    }
  }
}

// context_length: the tokens in front of a drawn one, but for the last, for its random number.
void CellCore::add_slice(Batch& batch, const Run& run, const GraphProgress::Step& step) const {
  const CellGraph& graph = run.progress.graph();
  const AdmissionTicket& ticket = *run.ticket;
  const bool has_grown = step.node >= graph.size();
  SequenceSlice slice;
  slice.sequence = ticket.sequence;
  slice.slot = run.rows[graph.row(has_grown ? graph.size() - 1 : step.node)];
  slice.num_tokens = 1;
  slice.input_from_slot = step.input_from_slot;
  slice.first_input = static_cast<std::uint32_t>(batch.input_rows.size());
  if (has_grown) {
    batch.input_rows.push_back(slice.slot);
    for (const auto read : graph.growth()->read) batch.input_rows.push_back(run.rows[graph.row(read)]);
  } else {
    for (const auto input : graph.inputs(step.node)) batch.input_rows.push_back(run.rows[graph.row(input)]);
  }
  slice.num_inputs = static_cast<std::uint32_t>(batch.input_rows.size()) - slice.first_input;
  slice.sampling = ticket.sampling;
  slice.sample = step.draw.has_value();
  if (step.draw) {
    slice.context_length = run.num_prompt() - 1 + *step.draw;
    slice.biased = ticket.biased;
    if (run.allowed) {
      slice.allowed = *run.allowed;
      slice.allowed.resize(mask_words(limits_->vocabulary_size));
    }
    if (run.penalized) {
      slice.penalized = run.penalized->tokens();
      slice.num_pending = *step.draw - run.progress.num_drawn();
    }
  }
  batch.slices.push_back(std::move(slice));
  const bool has_token = step.token >= 0 && !step.input_from_slot;
  batch.token_ids.push_back(has_token ? step.token : kNoTokenHere);
}

void CellCore::take(const BatchDone& event) {
  const auto flight = workers_.take_done(event);
  if (!flight) return;
  Worker& worker = workers_[event.worker];
  worker.health.finish(flight->owed(), now_);
  const auto time = now_ - std::max(flight->submitted, worker.health.last_done);
  report(event.worker, worker, *flight, &event.result);
  absorb(worker, *flight, event.result, time);
  if (suspects_.needs_proof())
    if (auto forgiven = suspects_.take_work(); !forgiven.empty())
      out_->push_back(DeathsForgiven{.epochs = std::move(forgiven)});
  advance();
}

void CellCore::absorb(const Worker& worker, const Flight& flight, const BatchResult& result,
                      std::chrono::nanoseconds time) {
  const CellType cell = worker.device.cells[flight.cell];
  for (std::size_t i = 0; i < flight.entries.size(); ++i) {
    const FlightEntry& entry = flight.entries[i];
    const auto found = runs_.find(entry.run);
    if (found == runs_.end() || found->second.number != entry.number) continue;  // it ended, or lost its rows
    Run& run = found->second;
    run.progress.completed(entry.step);
    run.batches += {.num_batches = 1, .num_sequences = flight.entries.size(), .time = time};
    suspects_.computed(entry.id, entry.ordinal + 1);
    if (run.held) continue;
    if (cell.result == ResultKind::kVector && options_.makes_batches &&
        !absorb_vector(run, entry.step, result, i, cell.vector_size)) {
      fail(entry.run, SequenceFailure::kDeviceFault, "The device gave no vector for a node.");
      continue;
    }
    if (entry.step.draw) absorb_token(entry.run, result, i);
    if (!runs_.contains(entry.run)) continue;
    if (run.progress.is_done()) {
      end(entry.run, Encoded{.sequence = entry.id, .vector = std::move(run.results)});
      continue;
    }
    settle_pause(entry.run);
  }
}

// False: the device gave none.
bool CellCore::absorb_vector(Run& run, const GraphProgress::Step& step, const BatchResult& result,
                             std::size_t slice, std::size_t size) {
  const CellGraph& graph = run.progress.graph();
  if (!graph.node(step.node).is_result) return true;
  if (result.vectors.size() < (slice + 1) * size) return false;
  run.results.resize(graph.num_results() * size);
  std::copy_n(result.vectors.begin() + static_cast<std::ptrdiff_t>(slice * size), size,
              run.results.begin() + static_cast<std::ptrdiff_t>(graph.result_index(step.node) * size));
  return true;
}

// Afterwards the request may be gone: it was its last.
void CellCore::absorb_token(Arrival arrival, const BatchResult& result, std::size_t slice) {
  Run& run = runs_.at(arrival);
  const AdmissionTicket& ticket = *run.ticket;
  const std::int32_t token = slice < result.tokens.size() ? result.tokens[slice] : -1;
  if (token < 0 || static_cast<std::uint32_t>(token) >= limits_->vocabulary_size)
    return fail(arrival, SequenceFailure::kDeviceFault, "The device drew no valid token.");
  run.progress.know(token);
  flows_.charge(run.flow, FairQueue::kDrawnTokenCost);
  if (run.penalized) run.penalized->add(token);
  if (run.is_guided() && !(run.free && has_token(*run.free, static_cast<std::size_t>(token)))) {
    run.allowed = run.free = nullptr;
    run.progress.permit_draw(false);
  }
  NewToken output{.sequence = ticket.sequence,
                  .token = token,
                  .index = run.progress.num_drawn(),
                  .started = run.started,
                  .batches = run.batches};
  if (ticket.sampling.wants_logprobs() && slice < result.logprobs.size())
    output.logprobs = std::make_shared<const TokenLogprobs>(result.logprobs[slice]);
  const auto& ends = ticket.end_tokens;
  if (run.progress.num_drawn() > ticket.min_tokens &&
      std::find(ends.begin(), ends.end(), token) != ends.end()) {
    output.end = SequenceEnd::kEndToken;
  } else if (run.progress.is_at_limit()) {
    output.end = SequenceEnd::kLength;
  }
  if (output.end == SequenceEnd::kNotYet) return emit(ticket.sequence, std::move(output));
  end(arrival, std::move(output));
}

// result: null if its worker died.
void CellCore::report(WorkerId id, Worker& worker, const Flight& flight, const BatchResult* result) {
  out_->push_back(IterationReport{.worker = id,
                                  .epoch = worker.health.epoch,
                                  .batch_id = flight.batch_id,
                                  .begun = std::max(flight.submitted, worker.health.last_done),
                                  .ended = now_,
                                  .network_nanoseconds = result ? result->network_nanoseconds : 0,
                                  .num_tokens = flight.num_nodes,
                                  .num_sequences = flight.num_nodes,
                                  .num_decodes = flight.num_draws,
                                  .num_running = static_cast<std::uint32_t>(worker.running.size()),
                                  .num_waiting = static_cast<std::uint32_t>(num_waiting()),
                                  .is_lost = result == nullptr});
  if (result) worker.health.last_done = now_;
}

}  // namespace troupe
