// SPDX-License-Identifier: Apache-2.0
// The cores of all models that a server serves: one EngineCore for each model that
// generates, one EncoderCore for each that encodes, one CellCore for each whose cells keep
// rows. Every worker has a device for each
// model, and its devices share its cores, so at most max_in_flight batches are
// submitted to a worker over all models; models take turns by device time
// (policy/admitting/model_turns.hpp), and a batch of an encoder, or prompts of another model, take
// no longer than the pace of the streams that run there allows. Streams go before encoders as long as
// they have credit (policy/admitting/stream_credit.hpp).
//
// With one model, this is its core and nothing else. A value, as its cores are. One
// caller at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "engine/cell_core.hpp"
#include "engine/encoder_core.hpp"
#include "engine/engine_core.hpp"
#include "engine/model_kind.hpp"
#include "policy/admitting/model_turns.hpp"
#include "policy/admitting/stream_credit.hpp"

namespace troupe {

struct ModelCoreOptions {
  ModelKind kind = ModelKind::kGenerative;
  CoreOptions core;
};

class ModelCores {
 public:
  using TimePoint = EngineCore::TimePoint;

  explicit ModelCores(std::vector<ModelCoreOptions> models);

  // Appends commands to out. `now` never goes back.
  void on(const Event& event, TimePoint now, Commands& out);

  std::size_t num_models() const { return cores_.size(); }
  // Over all models.
  std::size_t num_sequences() const;
  std::size_t num_waiting() const;
  std::size_t num_flows_waiting() const;
  std::size_t num_running() const;
  std::size_t num_in_flight() const;  // batches
  std::size_t num_fetching() const;
  std::size_t num_running(WorkerId worker) const;
  std::size_t num_in_flight(WorkerId worker) const;
  Trouble trouble() const;  // the worst
  bool is_given_up() const;
  // KV pages of all models.
  PageCounts page_counts() const;
  PageCounts page_counts(WorkerId worker) const;
  const AdmissionTicket* find(SequenceId id) const;  // null: it has ended

  // nullptr: that model encodes, or generates.
  const EngineCore* generator(ModelIndex model) const { return std::get_if<EngineCore>(&cores_[model]); }
  // The model whose pages are on the disk: the first that generates.
  ModelIndex disk_model() const { return disk_model_; }
  const EncoderCore* encoder(ModelIndex model) const { return std::get_if<EncoderCore>(&cores_[model]); }
  const CellCore* cells(ModelIndex model) const { return std::get_if<CellCore>(&cores_[model]); }

 private:
  friend class Fingerprint;  // as in EngineCore
  using Core = std::variant<EngineCore, EncoderCore, CellCore>;

  // A worker, seen over all models. Its devices take batches in order of submission.
  struct Worker {
    Epoch epoch = 0;
    ModelTurns turns;
    StreamCredit credit = {};
    std::deque<ModelIndex> in_flight;  // model of each batch, in order of submission
    ModelIndex last_submitted = 0;
    bool last_held_up = false;  // its batch: an encoder's, or with prompts
  };

  void dispatch(const Event& event);
  void dispatch(const WorkerReady& event);
  void dispatch(const WorkerLost& event);
  void dispatch(const BatchDone& event);
  void dispatch(const FlushPages& event);
  void dispatch(const SchedulerTick& event);
  void hand(ModelIndex model, const Event& event);
  void hand_to_all(const Event& event);
  void take_turns();
  std::size_t max_in_flight() const;
  bool submit_one(WorkerId worker, ModelIndex model);
  std::vector<std::size_t> order_of_turns(WorkerId worker) const;
  bool must_wait(WorkerId worker, ModelIndex model) const;
  bool encoders_give_way(WorkerId worker) const;
  bool has_generators() const;
  bool has_streams(WorkerId worker) const;
  void account(const IterationReport& report);
  bool holds_up(WorkerId worker, ModelIndex model) const;
  bool is_generator(ModelIndex model) const { return std::holds_alternative<EngineCore>(cores_[model]); }
  bool is_encoder(ModelIndex model) const { return std::holds_alternative<EncoderCore>(cores_[model]); }
  static void forget_submitted(Worker& worker);
  std::chrono::nanoseconds longest_pass(WorkerId worker, std::optional<ModelIndex> except = {}) const;
  void note(ModelIndex model, std::size_t first_command);

  std::vector<Core> cores_;  // by ModelIndex
  ModelIndex disk_model_ = 0;
  std::uint32_t max_in_flight_ = 2;  // batches of a worker
  double itl_factor_ = 0;
  std::vector<Worker> workers_;                   // by WorkerId; empty with one model
  std::map<std::uint64_t, std::size_t> flushes_;  // models that are not done with it

  // While on() runs.
  TimePoint now_;
  Commands* out_ = nullptr;
};

}  // namespace troupe
