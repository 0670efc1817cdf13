// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/simulated_server.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "engine/length_answers.hpp"
#include "policy/costs/residuals.hpp"
#include "policy/costs/rounded_time.hpp"

namespace troupe::loadgen {
namespace {

// No prompt and no answer has this token: it ends answers that end by themselves.
constexpr std::int32_t kEndToken = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kAnyToken = 0;

void prefetch(const void* place, std::size_t num_bytes) {
  const auto* bytes = static_cast<const char*>(place);
  for (std::size_t line = 0; line < num_bytes; line += 64) __builtin_prefetch(bytes + line);
}

UnfoldingRule rule_of(GraphKind graphs) {
  switch (graphs) {
    case GraphKind::kChain: break;
    case GraphKind::kEncodeDecode: return {.kind = UnfoldingKind::kEncodeDecode, .decoder_start = kAnyToken};
    case GraphKind::kTree: return {.kind = UnfoldingKind::kTree, .max_children = 2, .is_exactly_max = true};
  }
  return {};
}

// A chain draws with its one cell, a decoder with its second, a tree has a vector a node.
std::vector<CellType> cells_of(const ProfiledCells& cells) {
  std::vector<CellType> types;
  for (const ProfiledCell& cell : cells.types) {
    const bool draws = cells.graphs != GraphKind::kTree && types.size() + 1 == cells.types.size();
    types.push_back({.name = cell.name,
                     .state = StateKind::kRows,
                     .result = draws                              ? ResultKind::kToken
                               : cells.graphs == GraphKind::kTree ? ResultKind::kVector
                                                                  : ResultKind::kState,
                     .vector_size = cells.graphs == GraphKind::kTree ? 1U : 0U,
                     .priority = cell.priority});
  }
  return types;
}

CoreOptions core_options(const CostProfile& profile) {
  const ProfiledServer& server = profile.serving;
  CoreOptions options = {.serving = server.settings,
                         .makes_batches = false,
                         .pages = {.recompute_cost = server.recompute_cost,
                                   .load_from_host = server.load_from_host,
                                   .load_from_disk = server.load_from_disk(),
                                   .num_disk_pages = server.num_disk_pages}};
  if (!profile.cells) return options;
  options.unfolding = rule_of(profile.cells->graphs);
  for (const ProfiledCell& cell : profile.cells->types)
    options.max_cell_batches.push_back(cell.max_batch > 0 ? cell.max_batch
                                                          : server.settings.max_batch_tokens);
  return options;
}

DeviceDescription device_of(const CostProfile& profile) {
  const ProfiledServer& server = profile.serving;
  DeviceDescription device = {.name = "simulated",
                              .page_size = server.page_size,
                              .num_pages = server.num_pages,
                              .num_host_pages = server.settings.keeps_prefixes() ? server.num_host_pages : 0,
                              .num_slots = server.settings.max_batch_sequences,
                              .max_batch_tokens = server.settings.max_batch_tokens,
                              .context_length = server.limits.context_length,
                              .vocabulary_size = std::numeric_limits<std::uint32_t>::max()};
  if (profile.cells) {
    device.num_slots = profile.cells->num_rows;
    device.cells = cells_of(*profile.cells);
  }
  return device;
}

SimulatedServer::Time copy_time(const LoadCost& link, std::span<const PageCopy> copies) {
  double time = 0;
  bool has_loads = false;
  for (const PageCopy& copy : copies) {
    time += copy.is_within() ? 0 : link.per_page;
    has_loads = has_loads || copy.is_load();
  }
  return rounded_time(time + (has_loads ? link.fixed : 0));
}

ServerEvent::Kind end_of(SequenceFailure failure) {
  switch (failure) {
    case SequenceFailure::kQueueFull:
    case SequenceFailure::kDisplaced:
    case SequenceFailure::kQueueTimeout: return ServerEvent::Kind::kOverloaded;
    case SequenceFailure::kContextTooLong:
    case SequenceFailure::kInvalidRequest: return ServerEvent::Kind::kRejected;
    case SequenceFailure::kDeviceFault:
    case SequenceFailure::kKillsWorkers: break;
  }
  return ServerEvent::Kind::kFailed;
}

}  // namespace

ServerTotals& ServerTotals::operator+=(const ServerTotals& more) {
  num_batches += more.num_batches;
  batch_tokens += more.batch_tokens;
  output_tokens += more.output_tokens;
  num_preemptions += more.num_preemptions;
  num_refined += more.num_refined;
  num_shrunk += more.num_shrunk;
  num_loads += more.num_loads;
  num_stores += more.num_stores;
  num_reads += more.num_reads;
  num_writes += more.num_writes;
  num_losses += more.num_losses;
  return *this;
}

SimulatedServer::SimulatedServer(std::vector<const CostProfile*> workers,
                                 std::span<const std::int32_t> blank_prompt, Commands& commands,
                                 const SimulatedServerSettings& settings)
    : workers_(workers.size()),
      cores_({{.kind = ModelKind::kGenerative, .core = core_options(*workers.front())}}),
      commands_(commands),
      says_each_token_(settings.says_each_token),
      has_own_tokens_(settings.state_strength.has_value()),
      disk_(workers.front()->serving.disk),
      blank_prompt_(blank_prompt),
      predictor_(workers.front()->serving.settings.aimed_quantile()),
      random_(settings.seed) {
  if (settings.state_strength) states_ = {.strength = *settings.state_strength, .seed = settings.seed};
  if (settings.encoder_strength)
    vectors_ = {.strength = *settings.encoder_strength, .seed = ~settings.seed};  // noise of its own
  for (WorkerId worker = 0; worker < workers.size(); ++worker) {
    workers_[worker].profile = workers[worker];
    restart(Time{0}, worker);
  }
}

SequenceId SimulatedServer::admit(Time now, const SimulatedRequest& request) {
  now_ = now;
  auto ticket = std::make_shared<AdmissionTicket>();
  has_own_tokens_ = has_own_tokens_ || request.tokens || request.output_tokens < request.max_tokens;
  const SequenceId sequence = ticket->sequence = add(request);
  // Of prompts that are too long it does not matter by how much.
  const auto length = std::min<std::size_t>(request.prompt_tokens, blank_prompt_.size());
  const auto prompt = request.tokens ? std::span(*request.tokens).first(length) : blank_prompt_.first(length);
  ticket->prompt.assign(prompt.begin(), prompt.end());
  ticket->max_tokens = request.max_tokens;
  ticket->graph = request.graph;
  if (request.output_tokens < request.max_tokens) ticket->end_tokens = {kEndToken};
  if (workers_.front().profile->serving.settings.reservation == ReservationPolicy::kOracle)
    ticket->answer_tokens = request.output_tokens;
  load_.outstanding_tokens += request.prompt_tokens + request.max_tokens;
  hand(Admit{.ticket = std::move(ticket)});
  if (!next_check_ && cores_.num_sequences() > 0) next_check_ = now + kQueueCheckInterval;
  return sequence;
}

void SimulatedServer::cancel(Time now, SequenceId sequence) {
  now_ = now;
  hand(StopSequence{.sequence = sequence});
  forget(sequence);
}

// A sequence's number is its place, which is given away again when it has ended.
SequenceId SimulatedServer::add(const SimulatedRequest& request) {
  if (free_.empty()) {
    open_.emplace_back();
    free_.push_back(open_.size());
  }
  const SequenceId id = free_.back();
  free_.pop_back();
  open_[id - 1] = {.request = request, .number = ++num_admitted_};
  return id;
}

std::optional<SimulatedServer::Time> SimulatedServer::next_done(WorkerId worker) const {
  const auto& in_flight = workers_[worker].in_flight;
  if (in_flight.empty()) return std::nullopt;
  return in_flight.front().done;
}

void SimulatedServer::prefetch_server(WorkerId /*worker*/) const {
  prefetch(this, static_cast<std::size_t>(reinterpret_cast<const char*>(&free_) -
                                          reinterpret_cast<const char*>(this)));
}

void SimulatedServer::prefetch_core(WorkerId worker) const {
  prefetch(&workers_[worker], sizeof(Worker));
  if (const EngineCore* core = cores_.generator(0)) core->prefetch_core();
}

void SimulatedServer::prefetch_worker(WorkerId worker) const {
  prefetch(workers_[worker].in_flight.data(), sizeof(Flight));
  if (const EngineCore* core = cores_.generator(0)) core->prefetch_worker(worker);
}

void SimulatedServer::prefetch_batch(WorkerId worker) const {
  if (const EngineCore* core = cores_.generator(0)) core->prefetch_batch(worker);
}

void SimulatedServer::prefetch_entries(WorkerId worker) const {
  if (const EngineCore* core = cores_.generator(0)) core->prefetch_entries(worker);
}

void SimulatedServer::complete_batch(WorkerId id) {
  Worker& worker = workers_[id];
  const Flight flight = std::move(worker.in_flight.front());
  worker.in_flight.erase(worker.in_flight.begin());
  now_ = flight.done;
  BatchDone done{.worker = id, .epoch = worker.epoch, .result = {}};
  done.result.batch_id = flight.batch_id;
  done.result.tokens.assign(flight.num_steps, kAnyToken);
  for (std::size_t i = 0; i < flight.steps.size(); ++i) {
    done.result.tokens[i] = draw(flight.steps[i]);
    if (flight.steps[i].wants_state) hand_out_state(flight.steps[i], done.result);
  }
  hand(std::move(done));
}

void SimulatedServer::hand_out_state(const SubmittedStep& step, BatchResult& result) const {
  const Open& open = open_[step.sequence - 1];
  const std::uint32_t length = open.request.output_tokens;
  append_simulated_state(states_.value(),
                         {.request = open.number,
                          .num_generated = open.num_generated,
                          .num_left = length > open.num_generated ? length - open.num_generated : 1},
                         result.states);
}

// The next token of the request's answer.
std::int32_t SimulatedServer::draw(const SubmittedStep& step) const {
  if (!step.samples) return -1;
  // It may have ended meanwhile, and another have its place: the core ignores both.
  const auto& [request, number, num_generated, cached_tokens, queue_time] = open_[step.sequence - 1];
  if (num_generated + 1 >= request.output_tokens && request.output_tokens < request.max_tokens)
    return kEndToken;
  const std::size_t position = std::size_t{request.prompt_tokens} + num_generated;
  if (!request.tokens || position >= request.tokens->size()) return kAnyToken;
  return std::min((*request.tokens)[position], kEndToken - 1);
}

void SimulatedServer::check_queue() {
  now_ = *next_check_;
  next_check_.reset();
  hand(SchedulerTick{});
  if (cores_.num_sequences() > 0) next_check_ = now_ + kQueueCheckInterval;
}

void SimulatedServer::lose(Time now, WorkerId worker) {
  now_ = now;
  totals_.num_losses += 1;
  workers_[worker].in_flight.clear();
  hand(WorkerLost{.worker = worker, .epoch = workers_[worker].epoch});
}

void SimulatedServer::restart(Time now, WorkerId id) {
  now_ = now;
  Worker& worker = workers_[id];
  worker.epoch = ++last_epoch_;
  worker.device_free = now;
  DeviceDescription device = device_of(*worker.profile);
  device.num_host_pages = device_of(*workers_.front().profile).num_host_pages;
  device.hands_out_states = states_.has_value();
  hand(WorkerReady{.worker = id, .epoch = worker.epoch, .description = std::move(device)});
}

void SimulatedServer::complete_transfer() {
  now_ = *disk_.next_done();
  hand(TransfersDone{.transfers = {disk_.complete()}});
}

void SimulatedServer::hand(const Event& event) {
  hand_over(event);
  for (const LengthForecast& forecast : std::exchange(forecasts_, {})) hand_over(forecast);
  load_.num_waiting = static_cast<std::uint32_t>(cores_.num_waiting());
  load_.num_running = static_cast<std::uint32_t>(cores_.num_running());
}

void SimulatedServer::hand_over(const Event& event) {
  cores_.on(event, ModelCores::TimePoint(now_), commands_);
  for (Command& command : commands_) {
    if (const auto* output = std::get_if<Emit>(&command)) {
      take(*output);
    } else if (auto* batch = std::get_if<SubmitBatch>(&command)) {
      take(std::move(*batch));
    } else if (auto* transfers = std::get_if<TransferPages>(&command)) {
      take(std::move(*transfers));
    } else if (const auto* question = std::get_if<ForecastLength>(&command)) {
      take(*question);
    } else if (const auto* answer = std::get_if<LearnLength>(&command)) {
      learn(predictor_, *answer);
    }
  }
  commands_.clear();
}

// The answer comes at once.
void SimulatedServer::take(const ForecastLength& command) {
  auto forecast = answer(predictor_, command);
  if (!forecast.answers.empty()) forecasts_.push_back(std::move(forecast));
  if (vectors_) read_prompts(command);
}

// So do vectors.
void SimulatedServer::read_prompts(const ForecastLength& command) {
  for (const ForecastLength::Question& question : command.questions) {
    if (!question.waits || !predictor_.lacks_vector(question.sequence)) continue;
    const Open& open = open_[question.sequence - 1];
    std::vector<float> vector;
    append_simulated_state(
        *vectors_, {.request = open.number, .num_left = std::max(1U, open.request.output_tokens)}, vector);
    auto forecast = answer(predictor_, question.sequence, vector);
    if (!forecast.answers.empty()) forecasts_.push_back(std::move(forecast));
  }
}

void SimulatedServer::take(SubmitBatch&& command) {
  Worker& worker = workers_[command.worker];
  const CostProfile& profile = *worker.profile;
  const Time handed_in = now_ + Time(static_cast<Time::rep>(profile.overheads.turnaround));
  worker.device_free =
      std::max(worker.device_free, handed_in) +
      std::max(compute_time(profile, command), copy_time(profile.serving.load_from_host, command.copies));
  worker.in_flight.push_back({.done = worker.device_free,
                              .batch_id = command.batch_id,
                              .num_steps = command.steps.size(),
                              .steps = {}});
  if (has_own_tokens_) worker.in_flight.back().steps = std::move(command.steps);
  totals_.num_batches += 1;
  totals_.batch_tokens += command.shape.num_tokens;
  for (const PageCopy& copy : command.copies) {
    totals_.num_loads += copy.is_load() ? 1 : 0;
    totals_.num_stores += copy.is_store() ? 1 : 0;
  }
}

void SimulatedServer::take(TransferPages&& command) {
  for (const DiskTransfer& transfer : command.transfers) {
    totals_.num_reads += transfer.direction == DiskTransfer::Direction::kRead ? 1 : 0;
    totals_.num_writes += transfer.direction == DiskTransfer::Direction::kWrite ? 1 : 0;
  }
  disk_.submit(now_, std::move(command.transfers));
}

SimulatedServer::Time SimulatedServer::compute_time(const CostProfile& profile, const SubmitBatch& batch) {
  const IterationCost& cost = profile.cells ? profile.cells->types[batch.cell].cost : profile.iteration;
  Time time = cost(batch.shape);
  if (!profile.residuals.empty()) {
    const double rank = std::uniform_real_distribution<double>(0, 1)(random_);
    time = rounded_time(static_cast<double>(time.count()) * residual_at(profile.residuals, rank));
  }
  return time + profile.overheads.of_iteration(batch.shape.num_sequences);
}

void SimulatedServer::take(const Emit& command) {
  if (const auto* token = std::get_if<NewToken>(&command.output)) return take_token(command.sequence, *token);
  if (const auto* started = std::get_if<SequenceStarted>(&command.output)) {
    if (!started->queue_time) return;
    Open& open = open_[command.sequence - 1];
    open.cached_tokens = started->cached_tokens;
    open.queue_time = *started->queue_time;
  } else if (const auto* stopped = std::get_if<SequenceStopped>(&command.output)) {
    totals_.num_preemptions += stopped->reason == StopReason::kPreempted ? 1 : 0;
  } else if (const auto* changed = std::get_if<ReservationChanged>(&command.output)) {
    totals_.num_refined += changed->cause == ReservationChanged::Cause::kRefined ? 1 : 0;
    totals_.num_shrunk += changed->cause == ReservationChanged::Cause::kShrunk ? 1 : 0;
  } else if (std::holds_alternative<Encoded>(command.output)) {
    take_token(command.sequence, {.token = kAnyToken, .index = 1, .end = SequenceEnd::kLength});
  } else if (const auto* failed = std::get_if<SequenceFailed>(&command.output)) {
    end(command.sequence, end_of(failed->failure));
  }
}

void SimulatedServer::take_token(SequenceId id, const NewToken& token) {
  if (token.token >= 0) {
    totals_.output_tokens += 1;
    if (has_own_tokens_) open_[id - 1].num_generated = token.index;
    const bool is_first = token.index == 1;
    if (is_first || says_each_token_) {
      const Open& open = open_[id - 1];
      events_.push_back({.kind = is_first ? ServerEvent::Kind::kFirstToken : ServerEvent::Kind::kToken,
                         .request = open.request.id,
                         .cached_tokens = open.cached_tokens,
                         .queue_time = open.queue_time});
    }
  }
  if (token.end != SequenceEnd::kNotYet) end(id, ServerEvent::Kind::kFinished);
}

void SimulatedServer::end(SequenceId id, ServerEvent::Kind kind) {
  events_.push_back({.kind = kind, .request = open_[id - 1].request.id});
  forget(id);
}

void SimulatedServer::forget(SequenceId id) {
  SimulatedRequest& request = open_[id - 1].request;
  load_.outstanding_tokens -= request.prompt_tokens + request.max_tokens;
  request.tokens.reset();
  request.graph.reset();
  free_.push_back(id);
}

std::string SimulatedServer::leftovers() const {
  if (cores_.num_sequences() > 0) return std::to_string(cores_.num_sequences()) + " sequences have not ended";
  if (load_.outstanding_tokens > 0) return std::to_string(load_.outstanding_tokens) + " tokens are owed";
  if (const CellCore* core = cores_.cells(0))
    return core->is_consistent() ? "" : "some rows of state are nobody's, or two requests'";
  const PageCounts pages = page_counts();
  if (pages.running > 0) return std::to_string(pages.running) + " pages belong to no sequence";
  if (pages.free + pages.cached != pages.total)
    return std::to_string(pages.total) + " pages, but " + std::to_string(pages.free) + " free and " +
           std::to_string(pages.cached) + " cached";
  return cores_.generator(0)->pages().is_consistent() ? "" : "the map of pages contradicts itself";
}

}  // namespace troupe::loadgen
