// SPDX-License-Identifier: Apache-2.0
#include "engine/cell_core.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "engine/queue_full.hpp"

namespace troupe {
namespace {

Refusal graph_refusal(std::string message) { return {.message = std::move(message), .field = "input"}; }

std::uint32_t num_of_first_cell(const CellGraph& graph) {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < graph.size(); ++i) count += graph.node(i).cell == graph.node(0).cell ? 1 : 0;
  return count;
}

// A graph that somebody built of the cells of a chain, or of encoder and decoder, fits them; nullopt: it
// does. Each node reads a token, and only a cell that gives tokens draws.
std::optional<Refusal> check_nodes(const CellGraph& graph, const std::vector<CellType>& cells,
                                   std::uint32_t vocabulary_size) {
  const auto gives = [&](std::uint32_t cell, ResultKind result) { return cells[cell].result == result; };
  const auto is_state = [&](auto read) { return gives(graph.node(read).cell, ResultKind::kState); };
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const CellGraph::Node& node = graph.node(i);
    const auto who = [i] { return "Node " + std::to_string(i) + " has "; };
    if (node.token == CellGraph::kNoToken) return graph_refusal(who() + "no token, which its cell reads.");
    if (node.token < 0 || static_cast<std::uint32_t>(node.token) >= vocabulary_size)
      return graph_refusal(who() + "the token id " + std::to_string(node.token) +
                           ", outside the vocabulary of " + std::to_string(vocabulary_size) + ".");
    if (node.is_result && !gives(node.cell, ResultKind::kVector))
      return graph_refusal(who() + "no result: its cell gives no vector.");
    const auto inputs = graph.inputs(i);
    if (inputs.size() > 1 && !std::all_of(inputs.begin() + 1, inputs.end(), is_state))
      return graph_refusal(who() + "an input behind its first that is no encoder's state.");
  }
  const auto& growth = graph.growth();
  if (growth && (!gives(growth->cell, ResultKind::kToken) ||
                 !gives(graph.node(graph.size() - 1).cell, ResultKind::kToken)))
    return graph_refusal("The graph grows, but the cells of its end draw no tokens.");
  if (growth && !std::all_of(growth->read.begin(), growth->read.end(), is_state))
    return graph_refusal("The graph grows by nodes that read another than an encoder's states.");
  return std::nullopt;
}

// The nodes of a tree fit the network's cells; nullopt: they do.
std::optional<Refusal> check_tree(const CellGraph& graph, const UnfoldingRule& rule,
                                  std::uint32_t vocabulary_size) {
  if (graph.growth()) return graph_refusal("The graph grows, but this model's trees draw no tokens.");
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const CellGraph::Node& node = graph.node(i);
    const std::size_t num_children = graph.inputs(i).size();
    const bool has_word = node.token != CellGraph::kNoToken;
    const auto who = [i] { return "Node " + std::to_string(i) + " has "; };
    if (has_word != (node.cell == 0)) return graph_refusal(who() + "a word and is no leaf, or the reverse.");
    if (has_word && static_cast<std::uint32_t>(node.token) >= vocabulary_size)
      return graph_refusal(who() + "the token id " + std::to_string(node.token) +
                           ", outside the vocabulary of " + std::to_string(vocabulary_size) + ".");
    if (has_word && num_children > 0 && !rule.has_inner_words)
      return graph_refusal(who() + "a word and children, but this model's words are leaves.");
    if (has_word) continue;
    if (num_children == 0) return graph_refusal(who() + "neither a word nor children.");
    const bool fits =
        rule.is_exactly_max ? num_children == rule.max_children : num_children <= rule.max_children;
    if (!fits)
      return graph_refusal(who() + std::to_string(num_children) + " children, but this model's have " +
                           (rule.is_exactly_max ? "exactly " : "at most ") +
                           std::to_string(rule.max_children) + ".");
  }
  return std::nullopt;
}

}  // namespace

CellCore::CellCore(CoreOptions options)
    : options_(std::move(options)), buckets_(options_.serving.cell_bucket_width) {}

void CellCore::on(const Event& event, TimePoint now, Commands& out) {
  now_ = now;
  out_ = &out;
  std::visit([this](const auto& happened) { take(happened); }, event);
  flush_if_idle();
  out_ = nullptr;
}

bool CellCore::submit_one(WorkerId worker, TimePoint now, Commands& out) {
  if (!workers_.is_up(worker)) return false;
  now_ = now;
  out_ = &out;
  advance();
  const bool has_submitted = submit(worker);
  out_ = nullptr;
  return has_submitted;
}

bool CellCore::has_suspects() const {
  return suspects_.has_any([this](SequenceId id) {
    const auto arrival = arrival_of(id);
    return arrival && runs_.at(*arrival).phase != Phase::kPaused;
  });
}

void CellCore::take(const Admit& event) {
  const AdmissionTicket& ticket = *event.ticket;
  // A request that can't be served takes no other one's place.
  if (num_new_ >= options_.serving.max_waiting && limits_)
    if (auto refused = refusal_in(examine(ticket))) return emit(ticket.sequence, *std::move(refused));
  if (!find_place(ticket))
    return emit(ticket.sequence, SequenceFailed{.failure = SequenceFailure::kQueueFull,
                                                .message = queue_full_message(num_new_)});
  const Arrival arrival = ++last_arrival_;
  Run& run = runs_[arrival];
  run.ticket = event.ticket;
  run.flow = flows_.join(ticket.flow);
  run.arrived = now_;
  run.number = ++last_number_;
  if (ticket.sampling.has_penalties()) run.penalized.emplace(ticket.repeated_prompt);
  arrival_of_.emplace(ticket.sequence, arrival);
  num_new_ += run.is_new() ? 1 : 0;
  enqueue(arrival, run);
  if (limits_) check(arrival);
  advance();
}

// False: the queue is full, and stays as it is. What has begun is never put out.
bool CellCore::find_place(const AdmissionTicket& ticket) {
  if (ticket.has_begun || num_new_ < options_.serving.max_waiting) return true;
  const auto displaced =
      flows_.choose_displaced(ticket.flow, [this](Arrival arrival) { return runs_.at(arrival).is_new(); });
  if (!displaced) return false;
  fail(*displaced, SequenceFailure::kDisplaced,
       "The server's queue is full, and others have fewer requests in it; try again later.");
  return true;
}

std::shared_ptr<const CellGraph> CellCore::unfold(const AdmissionTicket& ticket) const {
  if (ticket.graph) return ticket.graph;
  const UnfoldingRule& rule = *options_.unfolding;
  if (rule.kind != UnfoldingKind::kEncodeDecode)
    return std::make_shared<const CellGraph>(unfold_chain(ticket.prompt));
  return std::make_shared<const CellGraph>(unfold_encode_decode(
      ticket.prompt,
      {.source_end = rule.source_end, .decoder_start = rule.decoder_start, .attends = rule.attends}));
}

// nullopt: it can be served, if the tokens that it may have say so, too.
std::optional<Refusal> CellCore::refusal_of(const AdmissionTicket& ticket, const CellGraph& graph) const {
  const UnfoldingRule& rule = *options_.unfolding;
  if (rule.kind == UnfoldingKind::kTree && !ticket.graph)
    return graph_refusal("This model classifies trees: the input must be one.");
  if (std::string problem = graph.problem(cells_.size(), num_rows_); !problem.empty())
    return graph_refusal(std::move(problem));
  if (rule.kind == UnfoldingKind::kTree) return check_tree(graph, rule, limits_->vocabulary_size);
  if (ticket.graph)
    if (auto refusal = check_nodes(graph, cells_, limits_->vocabulary_size)) return refusal;
  if (ticket.scores_prompt)
    return Refusal{.message = "This model's cells give no log-probabilities of a prompt.", .field = "echo"};
  return std::nullopt;
}

CellCore::Verdict CellCore::examine(const AdmissionTicket& ticket) const {
  // A prompt that is too long is refused before it is unfolded.
  if (!ticket.graph && options_.unfolding->kind != UnfoldingKind::kTree)
    if (auto refusal = check_input(ticket.prompt, *limits_)) {
      refusal->field = "prompt";
      return *std::move(refusal);
    }
  auto graph = unfold(ticket);
  if (auto refusal = refusal_of(ticket, *graph)) return *std::move(refusal);
  if (!graph->growth()) return Unfolded{.graph = std::move(graph)};
  std::vector<std::int32_t> biased_ids;
  for (const TokenBias& token : ticket.biased) biased_ids.push_back(token.id);
  auto checked = check_admission({.prompt = ticket.prompt,
                                  .max_tokens = ticket.max_tokens,
                                  .min_tokens = ticket.min_tokens,
                                  .stop_token_ids = ticket.end_tokens,
                                  .biased_ids = biased_ids},
                                 *limits_);
  if (auto* refusal = std::get_if<Refusal>(&checked)) return std::move(*refusal);
  return Unfolded{.graph = std::move(graph), .max_total = std::get<std::uint32_t>(checked)};
}

std::optional<SequenceFailed> CellCore::refusal_in(const Verdict& verdict) {
  const auto* refusal = std::get_if<Refusal>(&verdict);
  if (!refusal) return std::nullopt;
  return SequenceFailed{
      .failure = refusal->is_too_long ? SequenceFailure::kContextTooLong : SequenceFailure::kInvalidRequest,
      .message = refusal->message,
      .field = refusal->field};
}

// Afterwards it may be gone: it was refused, or has nothing to generate.
void CellCore::check(Arrival arrival) {
  Run& run = runs_.at(arrival);
  const AdmissionTicket& ticket = *run.ticket;
  const Verdict verdict = examine(ticket);
  if (auto refused = refusal_in(verdict))
    return fail(arrival, refused->failure, std::move(refused->message), std::move(refused->field));
  run.is_checked = true;
  emit(ticket.sequence, Admitted{});
  const auto& [graph, max_total] = std::get<Unfolded>(verdict);
  if (graph->growth() && max_total == run.num_prompt()) {
    emit(ticket.sequence, NewToken{.sequence = ticket.sequence, .token = -1, .end = SequenceEnd::kLength});
    return release(arrival);
  }
  const std::uint32_t max_drawn = graph->growth() ? max_total - run.num_prompt() : 0;
  const std::uint32_t max_pending =
      run.is_guided() ? 1 : std::min(options_.serving.max_in_flight, kRecentTokens);
  run.progress = GraphProgress(graph, cells_.size(), max_drawn, max_pending);
  run.length = num_of_first_cell(*graph);
  know_drawn(run);
  if (run.progress.num_drawn() == 0) {
    run.allowed = ticket.allowed_first;
    run.free = ticket.free_first;
  }
  if (run.is_guided()) run.progress.permit_draw(run.allowed != nullptr);
}

// Tokens that an earlier process drew, but for the last that it may have, which is drawn again.
void CellCore::know_drawn(Run& run) {
  for (const std::int32_t token : run.ticket->drawn) {
    if (run.progress.num_drawn() + 1 >= run.progress.max_drawn()) return;
    if (token < 0 || static_cast<std::uint32_t>(token) >= limits_->vocabulary_size) return;
    run.progress.know(token);
    if (run.penalized) run.penalized->add(token);
  }
}

void CellCore::enqueue(Arrival arrival, Run& run) {
  run.phase = Phase::kWaiting;
  run.queued = now_;
  flows_.wait(run.flow, arrival);
}

void CellCore::take(const StopSequence& event) {
  const auto arrival = arrival_of(event.sequence);
  if (!arrival) return;
  release(*arrival);
  advance();
}

void CellCore::take(const PauseSequence& event) {
  const auto arrival = arrival_of(event.sequence);
  if (!arrival) return;
  runs_.at(*arrival).is_paused = true;
  settle_pause(*arrival);
  advance();
}

// A paused request keeps no rows: no other has to do without because its client does not
// read. They are computed again when it does.
void CellCore::settle_pause(Arrival arrival) {
  Run& run = runs_.at(arrival);
  if (!run.is_paused || run.phase == Phase::kPaused || run.held) return;
  if (run.phase == Phase::kRunning && run.progress.num_in_flight() > 0) return;
  if (run.phase == Phase::kRunning) return interrupt(arrival, StopReason::kPaused);
  flows_.withdraw(run.flow, arrival);
  run.phase = Phase::kPaused;
}

void CellCore::take(const ResumeSequence& event) {
  const auto arrival = arrival_of(event.sequence);
  if (!arrival) return;
  Run& run = runs_.at(*arrival);
  if (!std::exchange(run.is_paused, false)) return;
  if (run.phase == Phase::kPaused) {
    enqueue(*arrival, run);
    if (limits_ && !run.is_checked) check(*arrival);
  }
  advance();
}

// A mask for a request that has ended, or for a token that is drawn already, is ignored.
void CellCore::take(const AllowTokens& event) {
  const auto arrival = arrival_of(event.sequence);
  if (!arrival) return;
  Run& run = runs_.at(*arrival);
  if (!run.is_guided() || run.allowed || !run.is_checked || event.num_generated != run.progress.num_drawn())
    return;
  run.allowed = event.allowed;
  run.free = event.free;
  run.progress.permit_draw(true);
  advance();
}

void CellCore::take(const WorkerReady& event) {
  if (!workers_.expect(event)) return;
  take(WorkerLost{.worker = event.worker, .epoch = workers_[event.worker].health.epoch});
  Worker& worker = workers_[event.worker];
  worker.health.come_up(event);
  is_given_up_ = false;
  worker.device = event.description;
  const DeviceDescription& device = worker.device;
  limits_ = ServingLimits{.context_length = device.context_length,
                          .page_capacity = device.context_length,
                          .vocabulary_size = device.vocabulary_size};
  cells_ = device.cells;
  num_rows_ = num_rows_ == 0 ? device.num_slots : std::min(num_rows_, device.num_slots);
  worker.max_nodes = std::min(options_.serving.max_batch_tokens, device.max_batch_tokens);
  worker.max_running = options_.serving.max_batch_sequences;
  worker.free_rows.clear();
  for (SlotId row = device.num_slots; row > 0; --row) worker.free_rows.push_back(row - 1);
  worker.turns = CellTurns(cells_.size(), options_.serving.max_cell_tasks);
  std::vector<Arrival> unchecked;
  for (const auto& [arrival, run] : runs_)
    if (!run.is_checked && run.phase == Phase::kWaiting) unchecked.push_back(arrival);
  for (const Arrival arrival : unchecked) check(arrival);
  advance();
}

// Every request that ran there waits for its next turn, but for one that is known to have
// killed the worker.
void CellCore::take(const WorkerLost& event) {
  const auto in_flight = workers_.take_lost(event, now_);
  if (!in_flight) return;
  for (const Flight& flight : *in_flight) report(event.worker, workers_[event.worker], flight, nullptr);
  const std::vector<Arrival> running = workers_[event.worker].running;
  for (const Arrival arrival : running) {
    if (Run& run = runs_.at(arrival); run.held) {
      emit(run.ticket->sequence, *std::move(run.held));
      release(arrival);
    } else {
      interrupt(arrival, StopReason::kWorkerLost);
    }
  }
  blame(event, *in_flight);
  advance();
}

void CellCore::blame(const WorkerLost& event, const std::deque<Flight>& in_flight) {
  std::vector<Suspects::Part> parts;
  for (const Flight& flight : in_flight) {
    if (event.batch_id != 0 && flight.batch_id != event.batch_id) continue;
    for (const FlightEntry& entry : flight.entries)
      parts.push_back({.sequence = entry.id,
                       .begin = entry.ordinal,
                       .end = entry.ordinal + 1,
                       .has_ended = !runs_.contains(entry.run)});
  }
  const auto culprit = suspects_.take_death(event.epoch, parts, event.may_be_another);
  if (!culprit) return;
  if (const auto arrival = arrival_of(*culprit))
    fail(*arrival, SequenceFailure::kKillsWorkers,
         "The server's worker failed repeatedly on this request, so it was given up.");
}

// While some request may be what kills workers, they join and leave as cells do.
bool CellCore::batches_whole_graphs() const {
  return options_.serving.cell_batching == CellBatching::kWholeGraphs && suspects_.is_empty() &&
         !suspects_.needs_proof();
}

void CellCore::admit_waiting() {
  if (!batches_whole_graphs()) {
    while (admit_next()) {
    }
    return;
  }
  for (WorkerId id = 0; id < workers_.size(); ++id)
    if (workers_[id].health.is_up && workers_[id].running.empty()) admit_batch(id);
}

// The worker runs nothing, so the first one has its rows. Graphs that do not grow are not
// padded: trees of any size share a batch.
void CellCore::admit_batch(WorkerId id) {
  const Worker& worker = workers_[id];
  std::vector<Arrival> waiting;
  std::vector<std::uint32_t> lengths;
  for (const Arrival arrival : flows_.in_turn()) {
    const Run& run = runs_.at(arrival);
    if (!run.is_checked) continue;
    waiting.push_back(arrival);
    lengths.push_back(run.progress.graph().growth() ? run.length : 1);
  }
  for (const std::size_t index :
       buckets_.take_turn(lengths, std::min(worker.max_running, worker.max_nodes))) {
    Run& run = runs_.at(waiting[index]);
    if (worker.free_rows.size() < run.progress.graph().num_rows()) break;
    start(waiting[index], run, id);
  }
  pad(worker);
}

// To the longest of the batch, which is all that the worker runs.
void CellCore::pad(const Worker& worker) {
  std::uint32_t longest = 0;
  for (const Arrival arrival : worker.running) longest = std::max(longest, runs_.at(arrival).length);
  for (const Arrival arrival : worker.running) {
    Run& run = runs_.at(arrival);
    if (run.progress.graph().growth()) run.num_padding = longest - run.length;
  }
}

// The first in turn joins, if a worker has rows for it. True if it did.
bool CellCore::admit_next() {
  const auto arrival = next_to_admit();
  if (!arrival) return false;
  Run& run = runs_.at(*arrival);
  const auto worker = place(run);
  if (!worker) return false;
  start(*arrival, run, *worker);
  return true;
}

// A suspect (policy/health/suspects.hpp) runs alone.
std::optional<CellCore::Arrival> CellCore::next_to_admit() const {
  const auto may_start = [this](Arrival arrival) { return runs_.at(arrival).is_checked; };
  if (suspects_.is_empty() && !suspects_.needs_proof()) return flows_.next(may_start);
  std::vector<Arrival> waiting;
  std::vector<SequenceId> waiting_ids, running_ids;
  for (const Arrival arrival : flows_.in_turn()) {
    if (!may_start(arrival)) continue;
    waiting.push_back(arrival);
    waiting_ids.push_back(runs_.at(arrival).ticket->sequence);
  }
  for (const Worker& worker : workers_)
    for (const Arrival arrival : worker.running) running_ids.push_back(runs_.at(arrival).ticket->sequence);
  const auto chosen = suspects_.next_to_admit(waiting_ids, running_ids);
  return chosen ? std::optional(waiting[*chosen]) : std::nullopt;
}

// Where most rows are free.
std::optional<WorkerId> CellCore::place(const Run& run) const {
  std::optional<WorkerId> best;
  for (WorkerId id = 0; id < workers_.size(); ++id) {
    const Worker& worker = workers_[id];
    if (!worker.health.is_up || worker.running.size() >= worker.max_running) continue;
    if (worker.free_rows.size() < run.progress.graph().num_rows()) continue;
    if (!best || worker.free_rows.size() > workers_[*best].free_rows.size()) best = id;
  }
  return best;
}

void CellCore::start(Arrival arrival, Run& run, WorkerId worker_id) {
  Worker& worker = workers_[worker_id];
  flows_.start(run.flow, arrival);
  worker.running.insert(std::upper_bound(worker.running.begin(), worker.running.end(), arrival), arrival);
  num_new_ -= run.is_new() ? 1 : 0;
  run.phase = Phase::kRunning;
  run.number = ++last_number_;
  run.worker = worker_id;
  run.rows.assign(worker.free_rows.end() - run.progress.graph().num_rows(), worker.free_rows.end());
  worker.free_rows.resize(worker.free_rows.size() - run.rows.size());
  SequenceStarted output{.queued = run.queued,
                         .asked = run.queued,
                         .started = now_,
                         .num_known = run.num_prompt() + run.progress.num_drawn(),
                         .worker = worker_id,
                         .epoch = worker.health.epoch};
  const bool is_first = !std::exchange(run.has_started, true);
  if (is_first) {
    run.started = now_;
    output.queue_time = now_ - run.arrived;
    flows_.charge(run.flow, FairQueue::kPromptTokenCost * run.progress.graph().size());
  }
  emit(run.ticket->sequence, std::move(output));
  if (!is_first) return;
  for (std::uint32_t i = 0; i < run.progress.num_drawn(); ++i)
    emit(run.ticket->sequence, NewToken{.sequence = run.ticket->sequence,
                                        .token = run.progress.tokens()[i],
                                        .index = i + 1,
                                        .started = run.started});
}

// Its rows are free at once: a device works in order, so what is still in flight writes to
// them before the next owner does.
void CellCore::give_up_rows(Arrival arrival, Run& run) {
  Worker& worker = workers_[run.worker];
  std::erase(worker.running, arrival);
  flows_.stop(run.flow);
  worker.free_rows.insert(worker.free_rows.end(), run.rows.begin(), run.rows.end());
  run.rows.clear();
  run.num_padding = 0;
  run.progress.restart();
  run.number = ++last_number_;
}

// Its last output. In a batch of whole graphs it is told when all have ended; afterwards it is
// gone otherwise.
void CellCore::end(Arrival arrival, SequenceOutput output) {
  Run& run = runs_.at(arrival);
  if (batches_whole_graphs()) {
    run.held = std::move(output);
    return;
  }
  emit(run.ticket->sequence, std::move(output));
  release(arrival);
}

// Of batches of whole graphs that are done.
void CellCore::tell_ends() {
  const auto has_ended = [this](Arrival arrival) { return runs_.at(arrival).held.has_value(); };
  for (const Worker& worker : workers_) {
    if (batches_whole_graphs() && !std::all_of(worker.running.begin(), worker.running.end(), has_ended))
      continue;
    std::vector<Arrival> ended;
    std::copy_if(worker.running.begin(), worker.running.end(), std::back_inserter(ended), has_ended);
    for (const Arrival arrival : ended) {
      Run& run = runs_.at(arrival);
      emit(run.ticket->sequence, *std::move(run.held));
      release(arrival);
    }
  }
}

// It is queued again, or is suspended until its client reads on.
void CellCore::interrupt(Arrival arrival, StopReason reason) {
  Run& run = runs_.at(arrival);
  give_up_rows(arrival, run);
  emit(run.ticket->sequence, SequenceStopped{.reason = reason, .time = now_, .is_paused = run.is_paused});
  if (run.is_paused) {
    run.phase = Phase::kPaused;
  } else {
    enqueue(arrival, run);
  }
}

void CellCore::take(const SchedulerTick&) {
  expire_waiting();
  look_after_devices();
  advance();
}

// Deadlines run from arrival and end when a request has begun.
void CellCore::expire_waiting() {
  std::vector<Arrival> expired;
  for (const auto& [arrival, run] : runs_)
    if (run.is_new() && run.phase == Phase::kWaiting && now_ - run.arrived > options_.serving.max_queue_time)
      expired.push_back(arrival);
  for (const Arrival arrival : expired)
    fail(arrival, SequenceFailure::kQueueTimeout,
         "The request waited longer than " + std::to_string(options_.serving.max_queue_time.count()) +
             " ms for its turn; try again later.");
}

void CellCore::look_after_devices() {
  for (WorkerStalled& stalled : workers_.look(now_)) {
    is_given_up_ = is_given_up_ || stalled.is_hopeless;
    out_->push_back(std::move(stalled));
  }
}

void CellCore::flush_if_idle() {
  if (flushes_.empty() || num_running() > 0 || num_in_flight() > 0) return;
  for (const std::uint64_t number : std::exchange(flushes_, {})) out_->push_back(Flushed{.number = number});
}

void CellCore::fail(Arrival arrival, SequenceFailure failure, std::string message,
                    std::optional<std::string> field) {
  emit(runs_.at(arrival).ticket->sequence,
       SequenceFailed{.failure = failure, .message = std::move(message), .field = std::move(field)});
  release(arrival);
}

void CellCore::release(Arrival arrival) {
  const auto found = runs_.find(arrival);
  Run& run = found->second;
  if (run.phase == Phase::kRunning) give_up_rows(arrival, run);
  if (run.phase == Phase::kWaiting) flows_.withdraw(run.flow, arrival);
  flows_.leave(run.flow);
  num_new_ -= run.is_new() ? 1 : 0;
  suspects_.forget(run.ticket->sequence);
  arrival_of_.erase(run.ticket->sequence);
  runs_.erase(found);
}

std::size_t CellCore::num_running() const {
  std::size_t count = 0;
  for (const Worker& worker : workers_) count += worker.running.size();
  return count;
}

std::size_t CellCore::num_running(WorkerId worker) const {
  return worker < workers_.size() ? workers_[worker].running.size() : 0;
}

std::size_t CellCore::num_free_rows(WorkerId worker) const {
  return worker < workers_.size() ? workers_[worker].free_rows.size() : 0;
}

bool CellCore::is_consistent() const {
  return std::all_of(workers_.begin(), workers_.end(), [this](const Worker& worker) {
    std::vector<SlotId> rows = worker.free_rows;
    for (const Arrival arrival : worker.running) {
      const Run& run = runs_.at(arrival);
      if (run.phase != Phase::kRunning || run.rows.size() != run.progress.graph().num_rows()) return false;
      rows.insert(rows.end(), run.rows.begin(), run.rows.end());
    }
    std::sort(rows.begin(), rows.end());
    for (SlotId row = 0; row < rows.size(); ++row)
      if (rows[row] != row) return false;
    return rows.size() == worker.device.num_slots || worker.health.epoch == 0;
  });
}

const AdmissionTicket* CellCore::find(SequenceId id) const {
  const auto arrival = arrival_of(id);
  return arrival ? runs_.at(*arrival).ticket.get() : nullptr;
}

std::optional<CellCore::Arrival> CellCore::arrival_of(SequenceId id) const {
  const auto found = arrival_of_.find(id);
  return found == arrival_of_.end() ? std::nullopt : std::optional(found->second);
}

void CellCore::emit(SequenceId id, SequenceOutput output) {
  out_->emplace_back(std::in_place_type<Emit>, Emit{.sequence = id, .output = std::move(output)});
}

}  // namespace troupe
