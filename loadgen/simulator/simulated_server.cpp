// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/simulated_server.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "engine/length_answers.hpp"
#include "policy/costs/residuals.hpp"

namespace troupe::loadgen {
namespace {

// No prompt and no answer has this token: it ends answers that end by themselves.
constexpr std::int32_t kEndToken = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kAnyToken = 0;

CoreOptions core_options(const ProfiledServer& server) {
  return {.serving = server.settings,
          .makes_batches = false,
          .pages = {.recompute_cost = server.recompute_cost, .load_from_host = server.load_from_host}};
}

DeviceDescription device_of(const ProfiledServer& server) {
  return {.name = "simulated",
          .page_size = server.page_size,
          .num_pages = server.num_pages,
          .num_host_pages = server.settings.keeps_prefixes() ? server.num_host_pages : 0,
          .num_slots = server.settings.max_batch_sequences,
          .max_batch_tokens = server.settings.max_batch_tokens,
          .context_length = server.limits.context_length,
          .vocabulary_size = std::numeric_limits<std::uint32_t>::max()};
}

}  // namespace

SimulatedServer::SimulatedServer(const CostProfile& profile, std::span<const std::int32_t> blank_prompt,
                                 Commands& commands, bool says_each_token, std::uint64_t seed)
    : profile_(profile),
      blank_prompt_(blank_prompt),
      says_each_token_(says_each_token),
      core_(core_options(profile.serving)),
      predictor_(profile.serving.settings.reserved_quantile),
      random_(seed),
      commands_(commands) {
  hand(WorkerReady{.worker = 0, .epoch = 1, .description = device_of(profile.serving)});
}

void SimulatedServer::admit(Time now, const SimulatedRequest& request) {
  now_ = now;
  auto ticket = std::make_shared<AdmissionTicket>();
  has_own_tokens_ = has_own_tokens_ || request.tokens || request.output_tokens < request.max_tokens;
  ticket->sequence = add(request);
  // Of prompts that are too long it does not matter by how much.
  const auto length = std::min<std::size_t>(request.prompt_tokens, blank_prompt_.size());
  const auto prompt = request.tokens ? std::span(*request.tokens).first(length) : blank_prompt_.first(length);
  ticket->prompt.assign(prompt.begin(), prompt.end());
  ticket->max_tokens = request.max_tokens;
  if (request.output_tokens < request.max_tokens) ticket->end_tokens = {kEndToken};
  if (profile_.serving.settings.reservation == ReservationPolicy::kOracle)
    ticket->answer_tokens = request.output_tokens;
  load_.outstanding_tokens += request.prompt_tokens + request.max_tokens;
  hand(Admit{.ticket = std::move(ticket)});
  if (!next_check_ && core_.num_sequences() > 0) next_check_ = now + kQueueCheckInterval;
}

// A sequence's number is its place, which is given away again when it has ended.
SequenceId SimulatedServer::add(const SimulatedRequest& request) {
  if (free_.empty()) {
    open_.emplace_back();
    free_.push_back(open_.size());
  }
  const SequenceId id = free_.back();
  free_.pop_back();
  open_[id - 1] = {.request = request};
  return id;
}

std::optional<SimulatedServer::Time> SimulatedServer::next_done() const {
  if (in_flight_.empty()) return std::nullopt;
  return in_flight_.front().done;
}

void SimulatedServer::complete_batch() {
  const Flight flight = std::move(in_flight_.front());
  in_flight_.pop_front();
  now_ = flight.done;
  BatchDone done{.worker = 0, .epoch = 1, .result = {}};
  done.result.batch_id = flight.batch_id;
  done.result.tokens.assign(flight.num_steps, kAnyToken);
  for (std::size_t i = 0; i < flight.steps.size(); ++i) done.result.tokens[i] = draw(flight.steps[i]);
  hand(std::move(done));
}

// The next token of the request's answer.
std::int32_t SimulatedServer::draw(const SubmittedStep& step) const {
  if (!step.samples) return -1;
  // It may have ended meanwhile, and another have its place: the core ignores both.
  const auto& [request, num_generated, cached_tokens, queue_time] = open_[step.sequence - 1];
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
  if (core_.num_sequences() > 0) next_check_ = now_ + kQueueCheckInterval;
}

void SimulatedServer::hand(const Event& event) {
  hand_over(event);
  for (const LengthForecast& forecast : std::exchange(forecasts_, {})) hand_over(forecast);
  load_.num_waiting = static_cast<std::uint32_t>(core_.num_waiting());
  load_.num_running = static_cast<std::uint32_t>(core_.num_running());
}

void SimulatedServer::hand_over(const Event& event) {
  core_.on(event, EngineCore::TimePoint(now_), commands_);
  for (Command& command : commands_) {
    if (const auto* output = std::get_if<Emit>(&command)) {
      take(*output);
    } else if (auto* batch = std::get_if<SubmitBatch>(&command)) {
      take(std::move(*batch));
    } else if (const auto* question = std::get_if<ForecastLength>(&command)) {
      take(*question);
    } else if (const auto* answer = std::get_if<LearnLength>(&command)) {
      predictor_.learn(answer->sequence, {.num_tokens = answer->num_tokens, .is_whole = answer->is_whole});
    }
  }
  commands_.clear();
}

// The answer comes at once.
void SimulatedServer::take(const ForecastLength& command) {
  forecasts_.push_back(answer(predictor_, command));
}

void SimulatedServer::take(SubmitBatch&& command) {
  const Time handed_in = now_ + Time(static_cast<Time::rep>(profile_.overheads.turnaround));
  device_free_ =
      std::max(device_free_, handed_in) + std::max(compute_time(command.shape), copy_time(command.copies));
  in_flight_.push_back(
      {.done = device_free_, .batch_id = command.batch_id, .num_steps = command.steps.size(), .steps = {}});
  if (has_own_tokens_) in_flight_.back().steps = std::move(command.steps);
  totals_.num_batches += 1;
  totals_.batch_tokens += command.shape.num_tokens;
  for (const PageCopy& copy : command.copies) {
    totals_.num_loads += copy.is_load() ? 1 : 0;
    totals_.num_stores += copy.is_store() ? 1 : 0;
  }
}

SimulatedServer::Time SimulatedServer::compute_time(const IterationShape& shape) {
  Time time = profile_.iteration(shape);
  if (!profile_.residuals.empty()) {
    const double rank = std::uniform_real_distribution<double>(0, 1)(random_);
    time = Time(std::llround(static_cast<double>(time.count()) * residual_at(profile_.residuals, rank)));
  }
  return time + profile_.overheads.of_iteration(shape.num_sequences);
}

SimulatedServer::Time SimulatedServer::copy_time(std::span<const PageCopy> copies) const {
  const LoadCost& link = profile_.serving.load_from_host;
  double time = 0;
  bool has_loads = false;
  for (const PageCopy& copy : copies) {
    time += copy.is_within() ? 0 : link.per_page;
    has_loads = has_loads || copy.is_load();
  }
  return Time(std::llround(time + (has_loads ? link.fixed : 0)));
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
  } else if (const auto* failed = std::get_if<SequenceFailed>(&command.output)) {
    const bool is_overload =
        failed->failure == SequenceFailure::kQueueFull || failed->failure == SequenceFailure::kQueueTimeout;
    end(command.sequence, is_overload ? ServerEvent::Kind::kOverloaded : ServerEvent::Kind::kRejected);
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
  SimulatedRequest& request = open_[id - 1].request;
  events_.push_back({.kind = kind, .request = request.id});
  load_.outstanding_tokens -= request.prompt_tokens + request.max_tokens;
  request.tokens.reset();
  free_.push_back(id);
}

}  // namespace troupe::loadgen
