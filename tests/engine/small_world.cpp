// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/small_world.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kMostDrained = 500;  // actions
constexpr int kTicksToWait = 3;            // in a row that change nothing
// Longer than any device is waited for.
constexpr int kLongestHang = 132;  // seconds; 129, and what is in front of the batch
constexpr std::uint32_t kLongestInput = 8;

bool is_tree(const SmallModel& model) {
  return model.unfolding && model.unfolding->kind == UnfoldingKind::kTree;
}

// One pass over each input, without state.
bool is_encoder(const SmallModel& model) { return model.kind == ModelKind::kEmbedding && !model.unfolding; }

bool draws(const SmallModel& model) { return !is_encoder(model) && !is_tree(model); }

void replace(std::string& text, char mark, std::uint8_t number) {
  if (const auto place = text.find(mark); place != std::string::npos)
    text.replace(place, 1, std::to_string(number));
}

}  // namespace

std::string to_string(SmallAction action) {
  constexpr std::array kNames{"worker % starts",
                              "request % arrives",
                              "worker % finishes its oldest batch of model #",
                              "worker % finishes its oldest batch of model #, whose first load failed",
                              "worker % dies",
                              "worker % dies after the copies of its oldest batch of model #",
                              "worker % dies of its device for model #",
                              "worker % dies of its oldest batch of model #",
                              "worker % hangs in its oldest batch of model # and is given up",
                              "request % is cancelled",
                              "request % is paused",
                              "request % is resumed",
                              "the conversation of request % is forgotten",
                              "request % says what its next token may be",
                              "transfer % is done",
                              "transfer % fails",
                              "transfer % finds damage",
                              "transfer % finds no room",
                              "a tick",
                              "31 s and a tick",
                              "a flush"};
  std::string text = kNames.at(static_cast<std::size_t>(action.kind));
  replace(text, '%', action.of);
  replace(text, '#', action.model);
  return text;
}

SmallWorld::SmallWorld(SmallWorldSettings settings)
    : setup_(prepare(std::move(settings))),
      left_(setup_->settings.budget),
      cores_(options_of(setup_->settings)),
      machines_(machines_of(setup_->settings)),
      clients_(setup_->settings.requests.size()),
      passed_over_(machines_.size()),
      last_submitted_(setup_->settings.sizes.num_workers) {}

std::shared_ptr<const SmallWorld::Setup> SmallWorld::prepare(SmallWorldSettings settings) {
  auto setup = std::make_shared<Setup>();
  for (const SmallRequest& request : settings.requests) {
    const SmallModel& model = settings.models[request.model];
    SmallGraphAnswer answer = answer_of(request, model);
    if (request.ends_early) answer.tokens.pop_back();
    auto ticket = std::make_shared<AdmissionTicket>();
    ticket->sequence = setup->tickets.size() + 1;
    ticket->model = request.model;
    ticket->prompt = request.prompt;
    if (is_tree(model)) ticket->graph = small_graph(*model.unfolding, request.prompt);
    if (draws(model)) ticket->max_tokens = request.max_tokens;
    ticket->flow = request.flow;
    if (request.ends_early) ticket->end_tokens = {answer.tokens.back()};
    if (request.is_guided)
      ticket->allowed_first = small_mask(static_cast<std::uint32_t>(request.prompt.size()));
    std::size_t num_free = 0;
    if (request.last_free > 0) {
      const std::int32_t last = answer.tokens.at(request.last_free);
      auto freedom = small_freedom(static_cast<std::uint32_t>(request.prompt.size()), last);
      ticket->allowed_first = std::move(freedom.allowed);
      ticket->free_first = std::move(freedom.free);
      const auto found = std::find(answer.tokens.begin(), answer.tokens.end(), last);
      num_free = static_cast<std::size_t>(found - answer.tokens.begin()) + 1;
    }
    setup->num_free.push_back(num_free);
    setup->tickets.push_back(std::move(ticket));
    setup->answers.push_back(std::move(answer.tokens));
    setup->vectors.push_back(std::move(answer.vector));
  }
  setup->settings = std::move(settings);
  return setup;
}

// Before it ends early.
SmallGraphAnswer SmallWorld::answer_of(const SmallRequest& request, const SmallModel& model) {
  if (model.unfolding)
    return small_answer(*small_graph(*model.unfolding, request.prompt), request.max_tokens);
  if (is_encoder(model)) return {.tokens = {}, .vector = small_vector(request.prompt)};
  std::vector<std::int32_t> context = request.prompt;
  if (model.source) {
    if (model.source->source_end >= 0) context.push_back(model.source->source_end);
    context = small_source(context);
    const auto& begins = model.source->answer_begins;
    context.insert(context.end(), begins.begin(), begins.end());
  }
  SmallGraphAnswer answer;
  for (std::uint32_t i = 0; i < request.max_tokens; ++i) {
    answer.tokens.push_back(small_token(context));
    context.push_back(answer.tokens.back());
  }
  return answer;
}

std::vector<ModelCoreOptions> SmallWorld::options_of(const SmallWorldSettings& settings) {
  CoreOptions options;
  options.serving.max_batch_tokens = SmallMachine::kMaxBatchTokens;
  options.serving.max_batch_sequences = settings.sizes.num_slots;
  options.serving.prefill_chunk = 3;
  options.serving.itl_factor = settings.itl_factor;
  options.serving.max_in_flight = kMaxInFlight;
  options.serving.max_waiting = 8;
  options.serving.look_ahead_pages = 0;
  options.serving.keep_free = 0;
  options.serving.copy_ahead_below = 0.5;
  options.serving.reservation = settings.reservation;
  options.serving.admission_order = settings.admission_order;
  std::vector<ModelCoreOptions> models;
  for (const SmallModel& model : settings.models) {
    models.push_back({.kind = model.kind, .core = options});
    models.back().core.source = model.source;
    models.back().core.unfolding = model.unfolding;
    if (models.size() == 1) models.back().core.pages.num_disk_pages = settings.sizes.num_disk_pages;
    if (is_encoder(model)) models.back().core.serving.max_batch_tokens = 2 * kLongestInput;
  }
  return models;
}

std::vector<SmallMachine> SmallWorld::machines_of(const SmallWorldSettings& settings) {
  std::vector<SmallMachine> machines;
  for (const SmallModel& model : settings.models) {
    SmallMachine::Sizes sizes = settings.sizes;
    sizes.encodes = is_encoder(model);
    sizes.has_sources = model.source.has_value();
    if (model.unfolding) sizes.cells = small_cells(*model.unfolding);
    if (!machines.empty()) sizes.num_disk_pages = 0;
    if (sizes.encodes || !sizes.cells.empty()) sizes.num_device_pages = sizes.num_host_pages = 0;
    machines.emplace_back(sizes, settings.defect);
  }
  return machines;
}

std::vector<SmallAction> SmallWorld::actions() const {
  std::vector<SmallAction> actions;
  const auto may = [&](SmallAction::Kind kind, std::size_t of, ModelIndex model = 0) {
    actions.push_back(
        {.kind = kind, .of = static_cast<std::uint8_t>(of), .model = static_cast<std::uint8_t>(model)});
  };
  for (WorkerId id = 0; id < num_workers(); ++id) {
    const bool is_up = machines_.front().worker(id).is_up;
    if (!is_up) may(SmallAction::kStart, id);
    for (ModelIndex model = 0; model < num_models() && is_up; ++model) {
      const bool is_killed = kills(id, model);
      const bool may_say = is_killed || (num_models() > 1 && left_.deaths > 0);  // of what it dies
      if (may_say) may(SmallAction::kDieOfDevice, id, model);
      const auto& queue = machines_[model].worker(id).queue;
      if (queue.empty()) continue;
      const Batch& oldest = *queue.front().batch;
      if (is_killed) {
        may(SmallAction::kDie, id, model);
      } else if (left_.late_masks > 0 || !machines_[model].lacks_mask(id)) {
        may(SmallAction::kRun, id, model);
      }
      if (left_.damaged_loads > 0 && machines_[model].has_load(oldest))
        may(SmallAction::kRunDamaged, id, model);
      if (left_.deaths > 0 && !oldest.copies.empty()) may(SmallAction::kDieHavingMoved, id, model);
      if (may_say) may(SmallAction::kDieOfBatch, id, model);
      if (left_.hangs > 0) may(SmallAction::kHang, id, model);
    }
    if (left_.deaths > 0 && is_up) may(SmallAction::kDie, id);
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const Client& client = clients_[i];
    if (client.state == Client::State::kAbsent) may(SmallAction::kArrive, i);
    if (client.state == Client::State::kEnded && left_.forgets > 0) may(SmallAction::kForget, i);
    if (!client.is_there()) continue;
    if (left_.cancels > 0) may(SmallAction::kCancel, i);
    const bool is_stream = draws(model(setup_->settings.requests[i].model));
    if (left_.pauses > 0 && is_stream && !client.is_paused) may(SmallAction::kPause, i);
    if (client.is_paused) may(SmallAction::kResume, i);
    if (setup_->settings.requests[i].is_guided && client.num_allowed == client.num_tokens)
      may(SmallAction::kAllow, i);
  }
  const auto& transfers = machines_[cores_.disk_model()].transfers();
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const bool is_read = transfers[i].direction == DiskTransfer::Direction::kRead;
    may(SmallAction::kTransfer, i);
    if (left_.failed_transfers == 0) continue;
    may(SmallAction::kTransferFails, i);
    may(is_read ? SmallAction::kTransferFindsDamage : SmallAction::kTransferFindsNoRoom, i);
  }
  may(SmallAction::kTick, 0);
  if (left_.long_waits > 0) may(SmallAction::kWaitLong, 0);
  return actions;
}

void SmallWorld::act(SmallAction action) try {
  using enum SmallAction::Kind;
  const std::uint8_t of = action.of;
  switch (action.kind) {
    case kStart: come_up(of); break;
    case kRun:
    case kRunDamaged: run(of, action.model, action.kind == kRunDamaged); break;
    case kDie:
    case kDieHavingMoved:
    case kDieOfDevice:
    case kDieOfBatch:
      if (kills(of, action.model)) {
        count_killed();
      } else {
        left_.deaths -= 1;
      }
      die(action);
      break;
    case kHang: hang(action); break;
    case kArrive:
    case kCancel:
    case kPause:
    case kResume:
    case kForget:
    case kAllow: act_for_client(action); break;
    case kTransfer: end_transfer(of, TransferOutcome::kDone); break;
    case kTransferFails: end_transfer(of, TransferOutcome::kFailed); break;
    case kTransferFindsDamage: end_transfer(of, TransferOutcome::kDamaged); break;
    case kTransferFindsNoRoom: end_transfer(of, TransferOutcome::kNoRoom); break;
    case kWaitLong:
      left_.long_waits -= 1;
      now_ += std::chrono::seconds(31);
      hand(SchedulerTick{});
      break;
    case kTick: hand(SchedulerTick{}); break;
    case kFlush: hand(FlushPages{.number = 1}); break;
  }
  check();
  poison();
} catch (const std::exception& error) {
  violate(std::string("exception: ") + error.what());
}

void SmallWorld::act_for_client(SmallAction action) {
  using enum SmallAction::Kind;
  Client& client = clients_[action.of];
  const SequenceId id = setup_->tickets[action.of]->sequence;
  if (action.kind == kArrive) {
    client.state = Client::State::kSent;
    hand(Admit{.ticket = setup_->tickets[action.of]});
  } else if (action.kind == kCancel) {
    left_.cancels -= 1;
    client.state = Client::State::kLeft;
    hand(StopSequence{.sequence = id});
  } else if (action.kind == kPause) {
    left_.pauses -= 1;
    client.is_paused = true;
    hand(PauseSequence{.sequence = id});
  } else if (action.kind == kResume) {
    client.is_paused = false;
    hand(ResumeSequence{.sequence = id});
  } else if (action.kind == kAllow) {
    const auto position =
        static_cast<std::uint32_t>(setup_->settings.requests[action.of].prompt.size() + client.num_tokens);
    hand(AllowTokens{.sequence = id, .num_generated = client.num_allowed++, .allowed = small_mask(position)});
  } else if (action.kind == kForget) {
    left_.forgets -= 1;
    client.state = Client::State::kForgotten;
    auto tokens = setup_->tickets[action.of]->prompt;
    const auto& answer = setup_->answers[action.of];
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    hand(ForgetPages{.tokens = std::make_shared<const std::vector<std::int32_t>>(std::move(tokens)),
                     .cache_salt = {}});
  }
}

void SmallWorld::run(WorkerId id, ModelIndex index, bool is_damaged) {
  left_.damaged_loads -= is_damaged ? 1 : 0;
  if (left_.late_masks > 0 && machines_[index].lacks_mask(id)) left_.late_masks -= 1;
  now_ += model(index).batch_time;
  const BatchDone done{.worker = id,
                       .epoch = machines_[index].worker(id).epoch,
                       .result = machines_[index].run_oldest(id, is_damaged),
                       .model = index};
  if (setup_->settings.defect != SmallMachine::Defect::kNeverReports) hand(done);
}

// A result of the incarnation before is of no account, whatever batch it names.
void SmallWorld::come_up(WorkerId id) {
  const Epoch before = machines_.front().worker(id).epoch;
  std::vector<ModelDevice> devices;
  last_epoch_ += 1;
  for (ModelIndex index = 0; index < num_models(); ++index) {
    machines_[index].start(id, last_epoch_);
    devices.push_back(
        {.description = device_of(index), .can_be_abandoned = setup_->settings.budget.hangs > 0});
  }
  hand(WorkerReady{.worker = id,
                   .epoch = last_epoch_,
                   .description = devices.front().description,
                   .can_be_abandoned = devices.front().can_be_abandoned,
                   .further_models = {devices.begin() + 1, devices.end()}});
  for (ModelIndex index = 0; index < num_models() && before > 0; ++index)
    if (const auto& queue = machines_[index].worker(id).queue; !queue.empty()) {
      BatchDone late{.worker = id, .epoch = before, .result = {}, .model = index};
      late.result.batch_id = queue.front().batch_id;
      hand(late);
    }
}

DeviceDescription SmallWorld::device_of(ModelIndex index) const {
  const SmallMachine::Sizes& sizes = setup_->settings.sizes;
  DeviceDescription device{.name = "small",
                           .page_size = sizes.page_size,
                           .num_pages = sizes.num_device_pages,
                           .num_host_pages = sizes.num_host_pages,
                           .num_slots = sizes.num_slots,
                           .max_batch_tokens = SmallMachine::kMaxBatchTokens,
                           .context_length = sizes.num_device_pages * sizes.page_size,
                           .vocabulary_size = kSmallVocabulary,
                           .waits_for_masks = setup_->settings.waits_for_masks};
  if (is_encoder(model(index))) {
    device.max_batch_tokens = 2 * kLongestInput;
    device.context_length = kLongestInput;
    device.cells = {
        {.name = "encoder_pass", .state = StateKind::kNone, .result = ResultKind::kVector, .vector_size = 2}};
  } else if (model(index).source) {
    device.cells = {{.name = "encoder_pass", .result = ResultKind::kState}, {.name = "decoder_step"}};
  } else if (model(index).unfolding) {
    device.num_slots = sizes.num_rows;
    device.cells = small_cells(*model(index).unfolding);
  }
  return device;
}

// Results that come late are of no account.
void SmallWorld::die(SmallAction action) {
  const WorkerId id = action.of;
  const bool says_model = action.kind != SmallAction::kDie && action.kind != SmallAction::kDieHavingMoved;
  WorkerLost lost{.worker = id, .epoch = machines_.front().worker(id).epoch};
  if (says_model) lost.model = action.model;
  if (action.kind == SmallAction::kDieOfBatch)
    lost.batch_id = machines_[action.model].worker(id).queue.front().batch_id;
  std::vector<BatchDone> late;
  for (ModelIndex index = 0; index < num_models(); ++index) {
    const auto& queue = machines_[index].worker(id).queue;
    if (queue.empty()) continue;
    late.push_back({.worker = id, .epoch = lost.epoch, .result = {}, .model = index});
    late.back().result.batch_id = queue.front().batch_id;
    late.back().result.tokens.assign(queue.front().batch->slices.size(), 1);
  }
  accused_ = accuse(action);
  for (ModelIndex index = 0; index < num_models(); ++index)
    machines_[index].die(id, action.kind == SmallAction::kDieHavingMoved && action.model == index);
  hand(lost);
  accused_.clear();
  for (const BatchDone& done : late) hand(done);
}

// Everything else goes on until the core gives the device up, and its worker ends.
void SmallWorld::hang(SmallAction action) {
  left_.hangs -= 1;
  const auto stalled = wait_for_stall(action.of, action.model);
  if (!stalled) return violate("a device that hangs is not found out");
  if (stalled->worker != action.of || stalled->model != action.model || stalled->is_hopeless)
    return violate("another device is taken for one that hangs");
  die({.kind = SmallAction::kDieOfDevice, .of = action.of, .model = action.model});
}

std::optional<WorkerStalled> SmallWorld::wait_for_stall(WorkerId worker, ModelIndex model) {
  for (int i = 0; i < kLongestHang && violation_.empty(); ++i) {
    now_ += std::chrono::seconds(1);
    is_hanging_ = true;
    hand(SchedulerTick{});
    is_hanging_ = false;
    if (stalled_) return std::exchange(stalled_, std::nullopt);
    for (WorkerId other = 0; other < num_workers(); ++other)
      for (ModelIndex index = 0; index < num_models(); ++index)
        if ((other != worker || index != model) && !machines_[index].worker(other).queue.empty() &&
            !kills(other, index))
          run(other, index, false);
  }
  return std::nullopt;
}

void SmallWorld::end_transfer(std::size_t index, TransferOutcome outcome) {
  left_.failed_transfers -= outcome == TransferOutcome::kDone ? 0 : 1;
  hand(TransfersDone{.transfers = {machines_[cores_.disk_model()].finish(index, outcome)}});
}

void SmallWorld::hand(const Event& event) {
  const std::vector<bool> could = could_submit();
  std::vector<ModelIndex> submitted;
  LengthForecast forecast;
  Commands commands;
  cores_.on(event, ModelCores::TimePoint(now_), commands);
  for (const Command& command : commands) {
    if (const auto* output = std::get_if<Emit>(&command)) take(*output);
    if (const auto* batch = std::get_if<SubmitBatch>(&command)) {
      submitted.push_back(batch->model);
      take(*batch);
    }
    if (const auto* stalled = std::get_if<WorkerStalled>(&command)) {
      if (!is_hanging_) violate("a device is given up that does not hang");
      stalled_ = *stalled;
    }
    if (const auto* mask = std::get_if<HandMask>(&command))
      for (SmallMachine& machine : machines_) machine.hand(*mask);
    if (std::holds_alternative<Flushed>(command) && std::exchange(is_flushed_, true))
      violate("flushed twice");
    if (const auto* asked = std::get_if<ForecastLength>(&command))
      for (const auto& question : asked->questions)
        forecast.answers.push_back({.sequence = question.sequence, .reserved_tokens = 1, .likely_tokens = 1});
    if (const auto* moves = std::get_if<TransferPages>(&command))
      for (const DiskTransfer& transfer : moves->transfers) machines_[cores_.disk_model()].begin(transfer);
  }
  check_turns(could, submitted);
  if (!forecast.answers.empty()) hand(forecast);
}

std::size_t SmallWorld::num_in_flight(ModelIndex model) const {
  std::size_t count = 0;
  for (WorkerId id = 0; id < num_workers(); ++id) count += machines_[model].worker(id).queue.size();
  return count;
}

bool SmallWorld::has_ended() const {
  return std::none_of(clients_.begin(), clients_.end(), [](const Client& client) {
    return client.state == Client::State::kAbsent || client.is_there();
  });
}

std::vector<SmallAction> SmallWorld::drain() {
  std::vector<SmallAction> done;
  const auto work_on = [&] {
    for (int num_ticks = 0; num_ticks < kTicksToWait && done.size() < kMostDrained && violation_.empty();) {
      const auto action = next_to_drain();
      num_ticks = action ? 0 : num_ticks + 1;
      done.push_back(action.value_or(SmallAction{.kind = SmallAction::kTick}));
      act(done.back());
    }
  };
  work_on();
  for (std::size_t i = 0; i < clients_.size(); ++i)
    if (clients_[i].is_there())
      violate("request " + std::to_string(i) + " never ends, though nothing more goes wrong");
  if (cores_.num_sequences() + cores_.num_running() + cores_.num_in_flight() > 0)
    violate("something is left in the core when all has been done");
  if (cores_.page_counts().running > 0) violate("pages are in use when nothing runs");
  if (!violation_.empty()) return done;
  done.push_back({.kind = SmallAction::kFlush});
  act(done.back());
  work_on();
  if (!is_flushed_) violate("what is to be on disk never gets there");
  return done;
}

std::optional<SmallAction> SmallWorld::next_to_drain() const {
  using enum SmallAction::Kind;
  for (const auto kind : {kStart, kResume, kTransfer, kAllow, kRun, kDieOfBatch, kDie})
    for (const SmallAction action : actions()) {
      const bool is_death = kind == kDie || kind == kDieOfBatch;
      if (action.kind == kind && (!is_death || kills(action.of, action.model))) return action;
    }
  return std::nullopt;
}

}  // namespace troupe
