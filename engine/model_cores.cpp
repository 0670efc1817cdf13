// SPDX-License-Identifier: Apache-2.0
#include "engine/model_cores.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace troupe {
namespace {

// No model counts its batches so far: a worker's death that another model's device died.
constexpr std::uint64_t kBatchOfAnother = std::numeric_limits<std::uint64_t>::max();

// Where models generate and an encoder's batches take longer, no encoder has one behind another's: a prompt
// that comes would wait for both. The device then idles between them until the scheduler has answered.
constexpr std::chrono::milliseconds kLongPass{5};

template <class Measure>
std::size_t sum(const auto& cores, const Measure& measure) {
  return std::accumulate(
      cores.begin(), cores.end(), std::size_t{0},
      [&](std::size_t total, const auto& core) { return total + std::visit(measure, core); });
}

}  // namespace

ModelCores::ModelCores(std::vector<ModelCoreOptions> models) {
  for (ModelCoreOptions& model : models) {
    model.core.shares_workers = models.size() > 1;
    const bool is_first = std::none_of(cores_.begin(), cores_.end(), [](const Core& core) {
      return std::holds_alternative<EngineCore>(core);
    });
    const bool has_pages = model.kind == ModelKind::kGenerative && !model.core.unfolding;
    if (is_first && has_pages) disk_model_ = static_cast<ModelIndex>(cores_.size());
    max_in_flight_ = models.front().core.serving.max_in_flight;
    itl_factor_ = std::max(itl_factor_, model.core.serving.itl_factor);
    if (model.core.unfolding) {
      cores_.emplace_back(std::in_place_type<CellCore>, std::move(model.core));
    } else if (has_pages) {
      cores_.emplace_back(std::in_place_type<EngineCore>, std::move(model.core));
    } else {
      cores_.emplace_back(std::in_place_type<EncoderCore>, std::move(model.core));
    }
  }
}

void ModelCores::on(const Event& event, TimePoint now, Commands& out) {
  if (cores_.size() == 1) return std::visit([&](auto& core) { core.on(event, now, out); }, cores_.front());
  now_ = now;
  out_ = &out;
  dispatch(event);
  take_turns();
  out_ = nullptr;
}

void ModelCores::dispatch(const Event& event) {
  if (const auto* ready = std::get_if<WorkerReady>(&event)) return dispatch(*ready);
  if (const auto* lost = std::get_if<WorkerLost>(&event)) return dispatch(*lost);
  if (const auto* done = std::get_if<BatchDone>(&event)) return dispatch(*done);
  if (const auto* flush = std::get_if<FlushPages>(&event)) return dispatch(*flush);
  if (const auto* tick = std::get_if<SchedulerTick>(&event)) return dispatch(*tick);
  if (const auto* admit = std::get_if<Admit>(&event)) return hand(admit->ticket->model, event);
  if (std::holds_alternative<TransfersDone>(event) || std::holds_alternative<DiskShort>(event) ||
      std::holds_alternative<DiskMayGrow>(event))
    return hand(disk_model_, event);
  hand_to_all(event);  // a sequence that a core does not know is nothing to it
}

void ModelCores::dispatch(const WorkerReady& event) {
  if (event.worker >= workers_.size())
    workers_.resize(event.worker + 1, {.epoch = 0, .turns = ModelTurns(cores_.size()), .in_flight = {}});
  Worker& worker = workers_[event.worker];
  if (event.epoch <= worker.epoch) return;
  worker.epoch = event.epoch;
  forget_submitted(worker);
  for (ModelIndex model = 0; model < cores_.size(); ++model) {
    const ModelDevice device =
        model == 0 ? ModelDevice{.description = event.description, .can_be_abandoned = event.can_be_abandoned}
                   : event.further_models.at(model - 1);
    hand(model, WorkerReady{.worker = event.worker,
                            .epoch = event.epoch,
                            .description = device.description,
                            .can_be_abandoned = device.can_be_abandoned});
  }
}

void ModelCores::dispatch(const WorkerLost& event) {
  if (event.worker >= workers_.size() || event.epoch != workers_[event.worker].epoch) return;
  const auto in_flight = workers_[event.worker].in_flight;
  forget_submitted(workers_[event.worker]);
  for (ModelIndex model = 0; model < cores_.size(); ++model) {
    WorkerLost lost = event;
    if (event.model && *event.model != model) lost.batch_id = kBatchOfAnother;
    lost.may_be_another = !event.model && std::any_of(in_flight.begin(), in_flight.end(),
                                                      [model](ModelIndex other) { return other != model; });
    hand(model, lost);
  }
}

void ModelCores::dispatch(const BatchDone& event) {
  if (event.worker >= workers_.size() || event.epoch != workers_[event.worker].epoch) return;
  auto& in_flight = workers_[event.worker].in_flight;
  const auto place = std::find(in_flight.begin(), in_flight.end(), event.model);
  if (place == in_flight.end()) return;
  // Models whose oldest batch is older still wait for their own device, which may hang.
  const std::vector<ModelIndex> older(in_flight.begin(), place);
  in_flight.erase(place);
  hand(event.model, event);
  for (ModelIndex model = 0; model < cores_.size(); ++model)
    if (model != event.model && std::find(older.begin(), older.end(), model) == older.end())
      std::visit([&](auto& core) { core.wait_for_others(event.worker, now_); }, cores_[model]);
}

void ModelCores::forget_submitted(Worker& worker) {
  worker.in_flight.clear();
  worker.turns.forget_submitted();
}

void ModelCores::dispatch(const FlushPages& event) {
  flushes_[event.number] = cores_.size();
  hand_to_all(event);
}

// A batch behind another model's is not worked on yet: its device does not hang.
void ModelCores::dispatch(const SchedulerTick& event) {
  for (WorkerId id = 0; id < workers_.size(); ++id) {
    if (workers_[id].in_flight.empty()) continue;
    for (ModelIndex model = 0; model < cores_.size(); ++model)
      if (model != workers_[id].in_flight.front())
        std::visit([&](auto& core) { core.wait_for_others(id, now_); }, cores_[model]);
  }
  hand_to_all(event);
}

void ModelCores::hand_to_all(const Event& event) {
  for (ModelIndex model = 0; model < cores_.size(); ++model) hand(model, event);
}

void ModelCores::hand(ModelIndex model, const Event& event) {
  const std::size_t first_command = out_->size();
  std::visit([&](auto& core) { core.on(event, now_, *out_); }, cores_[model]);
  note(model, first_command);
}

// Commands from `first` on are this model's: they say so. A flush is done when all
// models are done with it.
void ModelCores::note(ModelIndex model, std::size_t first) {
  for (std::size_t i = first; i < out_->size(); ++i) {
    if (auto* submit = std::get_if<SubmitBatch>(&(*out_)[i])) {
      submit->model = model;
      workers_[submit->worker].in_flight.push_back(model);
      workers_[submit->worker].last_submitted = model;
      workers_[submit->worker].last_held_up = holds_up(submit->worker, model);
      workers_[submit->worker].turns.submit(model);
    }
    if (auto* report = std::get_if<IterationReport>(&(*out_)[i])) {
      report->model = model;
      if (!report->is_lost) account(*report);
    }
    if (auto* forecast = std::get_if<ForecastLength>(&(*out_)[i])) forecast->model = model;
    if (auto* learn = std::get_if<LearnLength>(&(*out_)[i])) learn->model = model;
    if (auto* stalled = std::get_if<WorkerStalled>(&(*out_)[i])) stalled->model = model;
  }
  const auto is_unfinished_flush = [this](const Command& command) {
    const auto* flushed = std::get_if<Flushed>(&command);
    if (!flushed) return false;
    if (--flushes_[flushed->number] > 0) return true;
    flushes_.erase(flushed->number);
    return false;
  };
  out_->erase(
      std::remove_if(out_->begin() + static_cast<std::ptrdiff_t>(first), out_->end(), is_unfinished_flush),
      out_->end());
}

void ModelCores::account(const IterationReport& report) {
  Worker& worker = workers_[report.worker];
  const auto time = report.ended - report.begun;
  worker.turns.finish(report.model, time);
  if (itl_factor_ <= 1 || !has_generators()) return;
  if (is_encoder(report.model) && !has_streams(report.worker)) worker.credit.earn(time);
  const bool has_inputs = std::any_of(cores_.begin(), cores_.end(), [](const Core& core) {
    const auto* encoder = std::get_if<EncoderCore>(&core);
    return encoder && encoder->num_waiting() > 0;
  });
  if (is_generator(report.model) && has_inputs) worker.credit.spend(time);
}

bool ModelCores::has_generators() const {
  return std::any_of(cores_.begin(), cores_.end(),
                     [](const Core& core) { return std::holds_alternative<EngineCore>(core); });
}

// Streams run there, or wait for any worker.
bool ModelCores::has_streams(WorkerId worker) const {
  return std::any_of(cores_.begin(), cores_.end(), [worker](const Core& core) {
    const auto* generator = std::get_if<EngineCore>(&core);
    return generator && (generator->num_running(worker) > 0 || generator->num_waiting() > 0);
  });
}

void ModelCores::take_turns() {
  const std::size_t max_in_flight = this->max_in_flight();
  for (WorkerId id = 0; id < workers_.size(); ++id) {
    Worker& worker = workers_[id];
    bool has_submitted = true;
    while (has_submitted && worker.in_flight.size() < max_in_flight) {
      const auto order = order_of_turns(id);
      has_submitted = std::any_of(order.begin(), order.end(), [&](std::size_t model) {
        return submit_one(id, static_cast<ModelIndex>(model));
      });
    }
  }
}

// The limit is a worker's. While a request is suspected it is 1: a worker may end without
// a word, so a request on trial has to be alone over all models.
std::size_t ModelCores::max_in_flight() const {
  const bool has_suspects = std::any_of(cores_.begin(), cores_.end(), [](const Core& core) {
    return std::visit([](const auto& one) { return one.has_suspects(); }, core);
  });
  return has_suspects ? 1 : max_in_flight_;
}

bool ModelCores::submit_one(WorkerId worker, ModelIndex model) {
  if (must_wait(worker, model)) return false;
  const std::size_t first_command = out_->size();
  bool has_submitted = false;
  if (auto* core = std::get_if<EngineCore>(&cores_[model])) {
    has_submitted = core->submit_one(worker, longest_pass(worker, model), now_, *out_);
  } else if (auto* cells = std::get_if<CellCore>(&cores_[model])) {
    has_submitted = cells->submit_one(worker, now_, *out_);
  } else {
    has_submitted =
        std::get<EncoderCore>(cores_[model]).submit_one(worker, longest_pass(worker), now_, *out_);
  }
  note(model, first_command);
  return has_submitted;
}

// Beside streams of others no two batches of encoders, or with prompts of one model, follow each other
// where an iteration can be between them: they would hold the streams up for twice as long as one may.
std::vector<std::size_t> ModelCores::order_of_turns(WorkerId id) const {
  const Worker& worker = workers_[id];
  auto order = worker.turns.order();
  const ModelIndex last = worker.last_submitted;
  if (worker.last_held_up && longest_pass(id, last).count() > 0)
    std::stable_partition(order.begin(), order.end(), [&](std::size_t model) {
      return model != last && !(is_encoder(last) && is_encoder(static_cast<ModelIndex>(model)));
    });
  if (worker.credit.is_left())
    std::stable_partition(order.begin(), order.end(),
                          [this](std::size_t model) { return is_generator(static_cast<ModelIndex>(model)); });
  return order;
}

bool ModelCores::must_wait(WorkerId worker, ModelIndex model) const {
  if (is_encoder(model) && encoders_give_way(worker)) return true;
  if (longest_pass(worker, model).count() == 0) return false;
  if (!is_encoder(model)) return holds_up(worker, model);
  const auto& in_flight = workers_[worker].in_flight;
  return std::any_of(in_flight.begin(), in_flight.end(),
                     [this](ModelIndex other) { return is_encoder(other); });
}

// Something is in flight that the encoders wait for, so they are asked again. A stream's batch that is in
// flight has the next one behind it, if the stream is not at its end.
bool ModelCores::encoders_give_way(WorkerId id) const {
  if (itl_factor_ <= 1 || !has_generators()) return false;
  const Worker& worker = workers_[id];
  const auto has_in_flight = [&](const auto& is_one) {
    return std::any_of(worker.in_flight.begin(), worker.in_flight.end(), is_one);
  };
  if (worker.credit.is_left() && has_in_flight([this](ModelIndex model) { return is_generator(model); }))
    return true;
  bool has_long_passes = false;
  for (ModelIndex model = 0; model < cores_.size(); ++model)
    has_long_passes = has_long_passes || (is_encoder(model) && worker.turns.usual(model) > kLongPass);
  return has_long_passes && has_in_flight([this](ModelIndex model) { return is_encoder(model); });
}

// A batch of the model is in flight for which streams of others wait longer than for an iteration.
bool ModelCores::holds_up(WorkerId worker, ModelIndex model) const {
  if (const auto* core = std::get_if<EngineCore>(&cores_[model])) return core->has_prompts_in_flight(worker);
  return is_encoder(model);
}

// Streams keep their pace, but for those of `except`, whose own core sees to it: the time that a batch
// of another model may take. 0: however long.
std::chrono::nanoseconds ModelCores::longest_pass(WorkerId worker, std::optional<ModelIndex> except) const {
  if (itl_factor_ <= 1) return {};
  std::chrono::nanoseconds longest{0};
  for (std::size_t model = 0; model < cores_.size(); ++model) {
    const auto* generator = std::get_if<EngineCore>(&cores_[model]);
    if (!generator || except == static_cast<ModelIndex>(model)) continue;
    const auto decode_time = generator->decode_time(worker);
    if (decode_time.count() > 0 && (longest.count() == 0 || decode_time < longest)) longest = decode_time;
  }
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(longest.count()) * (itl_factor_ - 1)));
}

std::size_t ModelCores::num_sequences() const {
  return sum(cores_, [](const auto& core) { return core.num_sequences(); });
}
std::size_t ModelCores::num_waiting() const {
  return sum(cores_, [](const auto& core) { return core.num_waiting(); });
}
std::size_t ModelCores::num_flows_waiting() const {
  return sum(cores_, [](const auto& core) { return core.num_flows_waiting(); });
}
std::size_t ModelCores::num_running() const {
  return sum(cores_, [](const auto& core) { return core.num_running(); });
}
std::size_t ModelCores::num_in_flight() const {
  return sum(cores_, [](const auto& core) { return core.num_in_flight(); });
}
std::size_t ModelCores::num_running(WorkerId worker) const {
  return sum(cores_, [worker](const auto& core) { return core.num_running(worker); });
}
std::size_t ModelCores::num_in_flight(WorkerId worker) const {
  return sum(cores_, [worker](const auto& core) { return core.num_in_flight(worker); });
}

std::size_t ModelCores::num_fetching() const {
  std::size_t count = 0;
  for (const Core& core : cores_)
    if (const auto* generator = std::get_if<EngineCore>(&core)) count += generator->num_fetching();
  return count;
}

PageCounts ModelCores::page_counts() const {
  PageCounts counts;
  for (const Core& core : cores_)
    if (const auto* generator = std::get_if<EngineCore>(&core)) counts += generator->pages().counts();
  return counts;
}

PageCounts ModelCores::page_counts(WorkerId worker) const {
  PageCounts counts;
  for (const Core& core : cores_)
    if (const auto* generator = std::get_if<EngineCore>(&core)) counts += generator->pages().counts(worker);
  return counts;
}

Trouble ModelCores::trouble() const {
  Trouble worst = Trouble::kNone;
  for (const Core& core : cores_)
    worst = std::max(worst, std::visit([](const auto& one) { return one.trouble(); }, core));
  return worst;
}

bool ModelCores::is_given_up() const {
  return std::any_of(cores_.begin(), cores_.end(), [](const Core& core) {
    return std::visit([](const auto& one) { return one.is_given_up(); }, core);
  });
}

const AdmissionTicket* ModelCores::find(SequenceId id) const {
  for (const Core& core : cores_) {
    if (const auto* encoder = std::get_if<EncoderCore>(&core)) {
      if (const auto* ticket = encoder->find(id)) return ticket;
    } else if (const auto* cells = std::get_if<CellCore>(&core)) {
      if (const auto* ticket = cells->find(id)) return ticket;
    } else if (const Sequence* sequence = std::get<EngineCore>(core).find(id)) {
      return sequence->ticket.get();
    }
  }
  return nullptr;
}

}  // namespace troupe
