// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/sim_world.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "tests/actors/byte_model.hpp"

namespace troupe::sim {
namespace {

template <class Handle, class State>
State& state_of(const Handle& handle) {
  using Implementation = typename Handle::template stateful_base<State>;
  auto* actor = caf::actor_cast<caf::abstract_actor*>(handle);
  return dynamic_cast<Implementation&>(*actor).state;
}

ServedModel cell_model(const SimCellSettings& settings) {
  ServedModel model = byte_model();
  model.name = settings.device.description.name;
  model.network = cell_network(settings.kind);
  model.max_cell_batches = settings.max_cell_batches;
  if (settings.kind != UnfoldingKind::kTree) return model;
  model.kind = ModelKind::kEmbedding;
  model.vector_size = 1;
  return model;
}

}  // namespace

SimSettings small_settings() {
  SimSettings settings;
  settings.device.description = {.name = "simulated",
                                 .page_size = 4,
                                 .num_pages = 64,
                                 .num_slots = 8,
                                 .max_batch_tokens = 32,
                                 .context_length = 128,
                                 .vocabulary_size = ByteTokenizer::kVocabularySize};
  settings.options.serving.max_batch_tokens = 32;
  settings.options.serving.max_batch_sequences = 8;
  settings.options.serving.prefill_chunk = 8;
  settings.options.serving.max_waiting = 64;
  return settings;
}

SimWorld::Config::Config() {
  add_message_types<caf::id_block::troupe>();
  set("scheduler.policy", caf::atom("testing"));
  set("logger.verbosity", caf::atom("quiet"));
}

SimWorld::SimWorld(SimSettings settings)
    : settings_(std::move(settings)),
      random_(settings_.seed.value_or(0)),
      devices_(std::make_shared<SimDevices>()),
      system_(std::make_unique<caf::actor_system>(config_)) {
  devices_->now = [this] { return now(); };
  DeviceFactory make_device = [this](WorkerId worker) -> std::unique_ptr<Device> {
    if (settings_.fails_to_start && settings_.fails_to_start(devices_->num_devices + 1))
      throw std::runtime_error("simulated failure to start");
    return std::make_unique<SimDevice>(settings_.device, devices_, worker);
  };
  if (settings_.disk.file)
    settings_.options.cache.disk = std::make_shared<SimDisk>(
        settings_.disk, devices_, [this](auto delay, auto action) { after(delay, std::move(action)); });
  ServedModel model = byte_model();
  model.chat_template = settings_.chat_template;
  model.fingerprint = settings_.fingerprint;
  if (settings_.tokenizer) model.tokenizer = settings_.tokenizer;
  std::vector<EngineModel> models = {{.served = std::move(model), .make_device = make_device}};
  if (settings_.encoder) {
    ServedModel encoder = byte_model();
    encoder.name = "encoder";
    encoder.kind = ModelKind::kEmbedding;
    encoder.fingerprint = settings_.encoder_fingerprint;
    const auto place = settings_.encoder_is_first ? models.begin() : models.end();
    models.insert(place, {.served = std::move(encoder), .make_device = [this](WorkerId worker) {
                            return std::make_unique<SimEncoder>(*settings_.encoder, devices_, worker);
                          }});
  }
  if (settings_.second_chat) {
    ServedModel second = byte_model();
    second.name = "second";
    second.chat_template = settings_.chat_template;
    models.push_back({.served = std::move(second), .make_device = [this](WorkerId worker) {
                        return std::make_unique<SimDevice>(*settings_.second_chat, devices_, worker);
                      }});
  }
  for (const SimCellSettings& cells : settings_.cells)
    models.push_back({.served = cell_model(cells), .make_device = [this, &cells](WorkerId worker) {
                        return std::make_unique<SimCells>(cells, devices_, worker);
                      }});
  engine_ = std::make_unique<ActorEngine>(*system_, std::move(models), settings_.options, metrics_,
                                          ActorEngineSettings{.has_threads = false,
                                                              .seed = random_(),
                                                              .secret = {.k0 = random_(), .k1 = random_()},
                                                              .tracer = settings_.tracer});
}

SimWorld::~SimWorld() {
  const auto census = engine_->environment().census;
  engine_->stop();
  engine_.reset();
  settle();
  // Would wait for ever; the tests look at the census themselves.
  if (census->count() > 0) system_->await_actors_before_shutdown(false);
}

TimePoint SimWorld::now() const { return system_->clock().now(); }

void SimWorld::at(TimePoint time, std::function<void()> action) {
  agenda_.emplace(std::max(time, now()), std::move(action));
}

void SimWorld::after(std::chrono::nanoseconds delay, std::function<void()> action) {
  at(now() + delay, std::move(action));
}

void SimWorld::after_steps(std::uint64_t num_steps, std::function<void()> action) {
  step_agenda_.emplace(num_steps_ + num_steps, std::move(action));
}

bool SimWorld::act_at_step() {
  if (step_agenda_.empty()) return false;
  if (step_agenda_.begin()->first > num_steps_ && !coordinator().jobs.empty()) return false;
  const auto action = std::move(step_agenda_.begin()->second);
  step_agenda_.erase(step_agenda_.begin());
  action();
  return true;
}

bool SimWorld::step() {
  while (act_at_step()) {
  }
  auto& jobs = coordinator().jobs;
  if (jobs.empty()) return false;
  if (settings_.seed) pick_job();
  if (const auto* actor = dynamic_cast<caf::scheduled_actor*>(jobs.front())) trace(actor->id());
  num_steps_ += 1;
  coordinator().run_once();
  return true;
}

void SimWorld::pick_job() {
  auto& jobs = coordinator().jobs;
  const auto chosen = random_() % jobs.size();
  std::swap(jobs.front(), jobs[chosen]);
}

void SimWorld::settle() {
  while (step()) {
  }
}

TimePoint SimWorld::next_event() const {
  TimePoint next = TimePoint::max();
  if (!agenda_.empty()) next = agenda_.begin()->first;
  const auto& timers = coordinator().clock().schedule();
  if (!timers.empty()) next = std::min(next, timers.begin()->first);
  for (const auto& [worker, device] : devices_->alive) next = std::min(next, device->next_completion());
  for (const auto& [worker, device] : devices_->second_chats)
    next = std::min(next, device->next_completion());
  for (const auto& [worker, encoder] : devices_->encoders) next = std::min(next, encoder->next_completion());
  for (const auto& [place, cells] : devices_->cells) next = std::min(next, cells->next_completion());
  return next;
}

bool SimWorld::advance() {
  const TimePoint next = next_event();
  if (next == TimePoint::max()) return false;
  coordinator().advance_time(std::max(next - now(), std::chrono::steady_clock::duration(0)));
  trace(static_cast<std::uint64_t>(now().time_since_epoch().count()));
  for (const auto& [worker, device] : devices_->alive) device->ring_if_due();
  for (const auto& [worker, device] : devices_->second_chats) device->ring_if_due();
  for (const auto& [worker, encoder] : devices_->encoders) encoder->ring_if_due();
  for (const auto& [place, cells] : devices_->cells) cells->ring_if_due();
  while (!agenda_.empty() && agenda_.begin()->first <= now()) {
    const auto action = std::move(agenda_.begin()->second);
    agenda_.erase(agenda_.begin());
    action();
  }
  return true;
}

bool SimWorld::run(const std::function<bool()>& is_enough, std::uint64_t max_steps) {
  const std::uint64_t last = num_steps_ + max_steps;
  do {
    while (step())
      if (num_steps_ > last) return false;
    if (is_enough && is_enough()) return true;
  } while (advance());
  return true;
}

void SimWorld::run_for(std::chrono::nanoseconds time) {
  bool is_over = false;
  after(time, [&] { is_over = true; });
  run([&] { return is_over; });
}

void SimWorld::stand_still(std::chrono::nanoseconds time) { coordinator().advance_time(time); }

const PageMap& SimWorld::pages() { return scheduler().core().pages(); }

SchedulerState& SimWorld::scheduler() {
  return state_of<SchedulerActor, SchedulerState>(engine_->actors().scheduler);
}

double SimWorld::metric(const std::string& name) const {
  std::istringstream lines(metrics_.expose());
  double sum = 0.0;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + " ") || line.starts_with(name + "{"))
      sum += std::stod(line.substr(line.rfind(' ') + 1));
  return sum;
}

void SimWorld::trace(std::uint64_t value) {
  trace_hash_ = (trace_hash_ ^ value) * 0x9e3779b97f4a7c15ULL;
  trace_hash_ ^= trace_hash_ >> 29;
}

caf::scheduler::test_coordinator& SimWorld::coordinator() const {
  return static_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
}

}  // namespace troupe::sim
