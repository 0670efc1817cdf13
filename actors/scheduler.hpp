// SPDX-License-Identifier: Apache-2.0
// One an engine: hands what happens to the cores of its models (engine/model_cores.hpp) and does
// what they command: messages in, messages out, reports to metrics and traces.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "actors/actor_rules.hpp"
#include "actors/message_types.hpp"
#include "actors/reports/scheduler_reports.hpp"
#include "actors/sequence_requests.hpp"
#include "engine/model_cores.hpp"

namespace troupe {

class SchedulerState {
 public:
  using Self = SchedulerActor::stateful_pointer<SchedulerState>;
  static inline const char* name = "scheduler";

  SchedulerState() = default;
  ~SchedulerState();
  SchedulerState(const SchedulerState&) = delete;
  SchedulerState& operator=(const SchedulerState&) = delete;

  void initialize(Self self, Environment environment, CacheTierActor tier, PredictorActor predictor,
                  PageSecret secret);

  void admit(const Admit& message, const RequestActor& request);
  void stop(const StopSequence& message);
  void take_worker(const WorkerReady& message, BatchRunnerActor runner);
  void flush(const FlushEverything& message);
  void take_down(caf::actor_id request);
  void tick();
  void pass_on(const CheckPulse& pulse);
  // Every other event.
  void take(const Event& event);
  void set_supervisor(SupervisorActor supervisor) { supervisor_ = std::move(supervisor); }

  const ModelCores& cores() const { return cores_; }
  // The core of the first model that generates; there must be one.
  const EngineCore& core() const { return *cores_.generator(cores_.disk_model()); }
  std::size_t num_sequences() const { return cores_.num_sequences(); }
  std::size_t num_in_flight() const { return cores_.num_in_flight(); }

 private:
  using TimePoint = EngineCore::TimePoint;

  void submit(const SubmitBatch& command);
  void execute(const Emit& command);
  void execute(const SubmitBatch&) {}  // submit() has done it
  void execute(const TransferPages& command);
  void execute(const DiskGaveWay& command);
  void execute(const HandMask& command);
  void execute(const WorkerStalled& command);
  void execute(const DeathsForgiven& command);
  void execute(const ForecastLength& command);
  void execute(const LearnLength& command);
  void execute(const SetTimer& command);
  void execute(const Flushed& command) { flushes_.erase(command.number); }
  void execute(const IterationReport& command) { reports_->take(command); }
  void execute(const PagesNotIntact& command) { reports_->take(command); }
  void execute(const DiskDamage& command) { reports_->take(command); }
  void keep_ticking();

  Self self_ = nullptr;
  Environment environment_;
  std::unique_ptr<CensusEntry> census_;
  CacheTierActor tier_;
  PredictorActor predictor_;  // null: lengths are not forecast
  SupervisorActor supervisor_;
  std::vector<BatchRunnerActor> runners_;  // by WorkerId

  ModelCores cores_{{ModelCoreOptions{}}};  // with the environment's models from initialize() on
  std::unique_ptr<SchedulerReports> reports_;
  Commands commands_;
  SequenceRequests requests_;
  // Released when a flush is done.
  std::unordered_map<std::uint64_t, std::shared_ptr<const void>> flushes_;
  std::uint64_t last_flush_ = 0;
  bool is_ticking_ = false;
};

SchedulerActor::behavior_type make_scheduler(SchedulerState::Self self, Environment environment,
                                             CacheTierActor tier, PredictorActor predictor,
                                             PageSecret secret);

}  // namespace troupe
