// SPDX-License-Identifier: Apache-2.0
#include "actors/engine.hpp"

#include <future>
#include <random>
#include <thread>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/coordinator.hpp>

#include "actors/actor_engine.hpp"
#include "actors/shared_jobs.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

// A busy actor lets others run after so many messages.
constexpr std::size_t kMaxThroughput = 64;
// After the actors were asked to end.
constexpr std::chrono::seconds kStopDeadline{5};
constexpr std::chrono::seconds kCancelDeadline{2};

class SystemConfig : public caf::actor_system_config {
 public:
  explicit SystemConfig(std::uint32_t num_threads) {
    add_message_types<caf::id_block::troupe>();
    load<caf::scheduler::coordinator<SharedJobs>>();
    set("scheduler.max-threads", static_cast<std::size_t>(num_threads));
    set("scheduler.max-throughput", kMaxThroughput);
    set("logger.verbosity", caf::atom("quiet"));
  }
};

ActorEngineSettings random_settings(Tracer* tracer) {
  std::random_device random;
  const auto draw = [&] { return std::uint64_t{random()} << 32 | random(); };
  return {.has_threads = true, .seed = draw(), .secret = {.k0 = draw(), .k1 = draw()}, .tracer = tracer};
}

// Waits for the threads of a system without actors; false if they don't end.
bool destroy(std::unique_ptr<caf::actor_system> system, std::chrono::milliseconds deadline) {
  auto promise = std::make_shared<std::promise<void>>();
  auto is_done = promise->get_future();
  std::thread([promise, system = std::move(system)]() mutable {
    system.reset();
    promise->set_value();
  }).detach();
  return is_done.wait_for(deadline) == std::future_status::ready;
}

}  // namespace

struct Engine::Implementation {
  Implementation(std::vector<EngineModel> models, EngineOptions options, Metrics& metrics, Tracer* tracer)
      : config(std::make_unique<SystemConfig>(options.actor_threads)),
        system(std::make_unique<caf::actor_system>(*config)),
        engine(std::make_unique<ActorEngine>(*system, std::move(models), options, metrics,
                                             random_settings(tracer))),
        board(engine->environment().board),
        registry(engine->environment().registry),
        census(engine->environment().census) {}

  std::unique_ptr<SystemConfig> config;
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<ActorEngine> engine;
  std::shared_ptr<StatusBoard> board;
  std::shared_ptr<RequestRegistry> registry;
  std::shared_ptr<ActorCensus> census;
  bool is_drained = false;
  bool is_stopped = false;
};

Engine::Engine(std::vector<EngineModel> models, EngineOptions options, Metrics& metrics, Tracer* tracer)
    : implementation_(
          std::make_unique<Implementation>(std::move(models), std::move(options), metrics, tracer)) {}

Engine::Engine(ServedModel model, DeviceFactory make_device, EngineOptions options, Metrics& metrics,
               Tracer* tracer)
    : Engine({EngineModel{.served = std::move(model), .make_device = std::move(make_device)}},
             std::move(options), metrics, tracer) {}

Engine::~Engine() {
  if (stop(kStopDeadline)) return;
  // Threads that do not end still use all of this.
  implementation_.release();
}

RequestId Engine::submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink) {
  return implementation_->engine->submit(std::move(request), std::move(sink));
}

RequestId Engine::embed(EmbeddingRequest request, std::shared_ptr<ResponseSink> sink) {
  return implementation_->engine->embed(std::move(request), std::move(sink));
}

void Engine::end_journal(std::string response) { implementation_->engine->end_journal(std::move(response)); }

void Engine::look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink) {
  implementation_->engine->look_up(std::move(query), std::move(sink));
}

void Engine::cancel(RequestId id) { implementation_->registry->cancel(id); }

void Engine::resume(RequestId id) { implementation_->registry->resume(id); }

EngineStatus Engine::status() const { return implementation_->board->read(); }

std::string Engine::failure() const { return implementation_->board->failure(); }

std::uint64_t Engine::watch(bool is_sign_wanted) {
  if (implementation_->engine)
    implementation_->engine->watch(std::chrono::steady_clock::now(), is_sign_wanted);
  return implementation_->board->pulse;
}

void Engine::drain(std::chrono::milliseconds deadline) {
  implementation_->is_drained = true;
  implementation_->board->become_draining();
  if (implementation_->registry->wait_until_empty(deadline)) return;
  implementation_->registry->cancel_all();
  implementation_->registry->wait_until_empty(kCancelDeadline);
}

void Engine::flush(std::chrono::milliseconds deadline) {
  if (!implementation_->engine) return;
  auto promise = std::make_shared<std::promise<void>>();
  auto is_done = promise->get_future();
  // Whoever lets go of it last, for whatever reason, ends the waiting.
  implementation_->engine->flush(
      std::shared_ptr<const void>(nullptr, [promise](const void*) { promise->set_value(); }));
  is_done.wait_for(deadline);
}

bool Engine::stop(std::chrono::milliseconds deadline) {
  if (implementation_->is_stopped) return true;
  if (!implementation_->is_drained) drain(std::chrono::milliseconds(0));
  if (implementation_->engine) implementation_->engine->stop();
  implementation_->engine.reset();
  if (!implementation_->census->wait_until_empty(deadline)) {
    log(LogLevel::kError, "actors did not end by the deadline",
        {{"actors", static_cast<std::uint64_t>(implementation_->census->count())}});
    return false;
  }
  if (implementation_->system && !destroy(std::move(implementation_->system), deadline)) {
    log(LogLevel::kError, "threads did not end by the deadline");
    return false;
  }
  implementation_->is_stopped = true;
  return true;
}

}  // namespace troupe
