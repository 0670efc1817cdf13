// SPDX-License-Identifier: Apache-2.0
// A world small enough to be explored wholly: the cores of one or several models, a
// small machine, a few clients that know what they must be answered, and a budget of
// misfortunes. Everything that may happen in a state is an action; whatever breaks an
// invariant is noted. A value.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_cores.hpp"
#include "tests/engine/small_machine.hpp"

namespace troupe {

struct SmallRequest {
  std::vector<std::int32_t> prompt;
  std::uint32_t max_tokens = 1;
  std::string flow;
  bool ends_early = false;  // by an end token, one before max_tokens
  ModelIndex model = 0;
  bool kills = false;  // the worker that has it in its oldest batch
  bool is_guided = false;
  // Guided: its first tokens are free, up to the one with this number. 0: none is.
  std::uint32_t last_free = 0;
};

struct SmallModel {
  ModelKind kind = ModelKind::kGenerative;
  std::chrono::nanoseconds batch_time{0};       // not 0 for all: the models' turns are checked, too
  std::optional<SourceRule> source = {};        // of an encoder-decoder that keeps pages
  std::optional<UnfoldingRule> unfolding = {};  // of cells that keep rows; its kind follows from the rule
};

// How often each misfortune may happen.
struct SmallBudget {
  std::uint8_t deaths = 0, cancels = 0, pauses = 0, damaged_loads = 0, failed_transfers = 0;
  std::uint8_t long_waits = 0;  // 31 s in which nothing happens
  std::uint8_t forgets = 0;     // conversations that are closed
  std::uint8_t hangs = 0;       // of a device, until it is given up
  std::uint8_t late_masks = 0;  // batches that are done without one
};

struct SmallWorldSettings {
  std::string name;
  SmallMachine::Sizes sizes;  // for each model; the disk is the first one's
  std::vector<SmallRequest> requests;
  SmallBudget budget;
  std::vector<SmallModel> models = {SmallModel{}};
  double itl_factor = 0;
  bool waits_for_masks = false;  // every device
  // Under kPredicted, every answer is foretold to have one token.
  ReservationPolicy reservation = ReservationPolicy::kOnDemand;
  AdmissionOrder admission_order = AdmissionOrder::kArrival;
  SmallMachine::Defect defect = SmallMachine::Defect::kNone;
};

struct SmallAction {
  enum class Kind : std::uint8_t {
    kStart,           // a worker comes up
    kArrive,          // a request
    kRun,             // a worker's oldest batch of a model is done
    kRunDamaged,      // and its first load failed its check
    kDie,             // a worker, with what it was to do, and says nothing
    kDieHavingMoved,  // after the copies of its oldest batch
    kDieOfDevice,     // a worker, and says of which model's device
    kDieOfBatch,      // and of which batch, the model's oldest
    kHang,            // a model's device, until the core gives it up
    kCancel,
    kPause,
    kResume,
    kForget,    // a request
    kAllow,     // says what a request's next token may be
    kTransfer,  // of those under way, the one with this number
    kTransferFails,
    kTransferFindsDamage,
    kTransferFindsNoRoom,
    kTick,
    kWaitLong,  // and a tick
    kFlush,     // asks for what is to be on disk
  };
  using enum Kind;
  Kind kind = kTick;
  std::uint8_t of = 0;
  std::uint8_t model = 0;
  bool operator==(const SmallAction&) const = default;
};
std::string to_string(SmallAction action);

class SmallWorld {
 public:
  explicit SmallWorld(SmallWorldSettings settings);

  std::vector<SmallAction> actions() const;
  void act(SmallAction action);
  std::uint64_t fingerprint() const;
  // Nothing bad happens any more: works on until nothing is left to do. Every request
  // that has arrived must then have ended, and no page be in use.
  // Returns the actions that this took.
  std::vector<SmallAction> drain();

  // The first invariant that was broken; empty: none.
  const std::string& violation() const { return violation_; }
  bool has_ended() const;  // every request
  const ModelCores& cores() const { return cores_; }

 private:
  static constexpr std::uint32_t kMaxInFlight = 2;
  struct Setup {
    SmallWorldSettings settings;
    std::vector<std::shared_ptr<const AdmissionTicket>> tickets;
    std::vector<std::vector<std::int32_t>> answers;
    std::vector<std::vector<float>> vectors;
    std::vector<std::size_t> num_free;  // tokens that are drawn freely
  };
  struct Client {
    enum class State : std::uint8_t {
      kAbsent,
      kSent,
      kAdmitted,
      kRunning,
      kStopped,
      kEnded,
      kLeft,
      kForgotten
    };
    State state = State::kAbsent;
    bool is_paused = false;
    std::uint8_t num_tokens = 0;
    std::uint8_t num_accused = 0;  // deaths that it may have caused
    std::uint8_t num_allowed = 1;  // tokens of which it has said what they may be
    bool is_there() const {
      return state != State::kAbsent && state != State::kEnded && state != State::kLeft &&
             state != State::kForgotten;
    }
  };

  static std::shared_ptr<const Setup> prepare(SmallWorldSettings settings);
  static SmallGraphAnswer answer_of(const SmallRequest& request, const SmallModel& model);
  static std::vector<ModelCoreOptions> options_of(const SmallWorldSettings& settings);
  static std::vector<SmallMachine> machines_of(const SmallWorldSettings& settings);
  void hand(const Event& event);
  void act_for_client(SmallAction action);
  void come_up(WorkerId worker);
  DeviceDescription device_of(ModelIndex model) const;
  void run(WorkerId worker, ModelIndex model, bool is_damaged);
  void die(SmallAction action);
  void hang(SmallAction action);
  std::optional<WorkerStalled> wait_for_stall(WorkerId worker, ModelIndex model);
  void end_transfer(std::size_t index, TransferOutcome outcome);
  std::optional<SmallAction> next_to_drain() const;
  std::uint32_t num_workers() const { return setup_->settings.sizes.num_workers; }
  ModelIndex num_models() const { return static_cast<ModelIndex>(machines_.size()); }
  const SmallModel& model(ModelIndex index) const { return setup_->settings.models[index]; }
  std::size_t num_in_flight(ModelIndex model) const;

  // small_world_checks.cpp: whatever comes of it must be right
  void take(const SubmitBatch& command);
  void check_masks(const Batch& batch);
  bool is_beside_streams(const SubmitBatch& command) const;
  void take(const Emit& command);
  void take(Client& client, std::size_t request, const NewToken& token);
  void take(Client& client, std::size_t request, const Encoded& encoded);
  void take(Client& client, std::size_t request, const SequenceFailed& failed);
  std::vector<std::size_t> accuse(SmallAction death);
  std::vector<bool> could_submit() const;
  bool can_decode(WorkerId worker, ModelIndex model) const;
  bool kills(WorkerId worker, ModelIndex model) const;
  void count_killed();
  void check_turns(const std::vector<bool>& could_submit, const std::vector<ModelIndex>& submitted);
  void check();
  void check_worker(WorkerId id);
  void check_pages(WorkerId id, ModelIndex model);
  void poison();
  std::uint64_t fingerprint(ModelIndex model) const;
  void violate(const std::string& text);

  std::shared_ptr<const Setup> setup_;
  SmallBudget left_;
  ModelCores cores_;
  std::vector<SmallMachine> machines_;  // by ModelIndex
  std::vector<Client> clients_;
  std::vector<std::chrono::nanoseconds> passed_over_;  // by ModelIndex: of others, while it could submit
  std::vector<ModelIndex> last_submitted_;             // by WorkerId
  int num_killed_ = 0;                                 // workers, by requests that kill
  std::vector<std::size_t> accused_;  // while a death is handed over: the requests that may have caused it
  Epoch last_epoch_ = 0;
  std::chrono::nanoseconds now_{1};
  bool is_flushed_ = false;  // while it is drained
  bool is_hanging_ = false;  // while a device hangs
  std::optional<WorkerStalled> stalled_;
  std::string violation_;
};

}  // namespace troupe
