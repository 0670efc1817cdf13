// SPDX-License-Identifier: Apache-2.0
// A device in virtual time. Its KV pages really hold the token ids that are
// written through page tables, and the next token is a hash of all tokens of
// the sequence as read back through its page table: a page that is wrong, stale
// or somebody else's gives a wrong token. It fails on command.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/admission_ticket.hpp"
#include "gpu/device.hpp"

namespace troupe::sim {

using TimePoint = std::chrono::steady_clock::time_point;

enum class Fault : std::uint8_t {
  kNone,
  kBatchError,  // the result says error
  kThrowInSubmit,
  kThrowInCollect,
  kThrowSomethingElse,  // nothing a worker knows: it dies without a word
  kNeverCompletes,      // this batch and all behind it
};

struct SimDeviceSettings {
  DeviceDescription description;
  std::chrono::nanoseconds batch_time{100'000};
  std::chrono::nanoseconds token_time{2'000};
  bool is_polled = false;  // otherwise it calls its listener
  bool can_be_abandoned = false;
  bool is_second = false;  // of a second chat model, which has pages of its own and other answers
  // Set: it hands out states, which tell so strongly how many tokens an answer will still have
  // (loadgen/simulator/simulated_states.hpp), as if nothing were asked of them.
  std::optional<double> state_strength = {};
};

// Added to the seed of what a second chat model is asked: it goes on otherwise than the first.
inline constexpr std::uint64_t kSecondDialect = 1'000'003;

class SimDevice;
class SimEncoder;
class SimCells;

// What all devices of a simulation share; outlives them.
struct SimDevices {
  struct HostPage {
    std::uint64_t generation = 0;
    std::vector<std::int32_t> tokens;
  };
  struct Begun {
    Fault fault = Fault::kNone;
    TimePoint done{};  // max(): never
  };

  std::function<TimePoint()> now;
  // Asked for every batch, in order of submission.
  std::function<Fault(const Batch&, std::uint64_t number)> choose_fault;
  std::uint64_t num_batches = 0;
  WorkerId submitting = 0;  // the worker that got the last one
  std::uint64_t num_devices = 0;
  std::map<std::uint64_t, WorkerId> ran_on;                       // sequences: the worker that had them last
  std::uint64_t num_moved = 0;                                    // to another worker
  std::map<WorkerId, SimDevice*> alive;                           // never more than one of a worker
  std::map<WorkerId, SimDevice*> second_chats;                    // so, too, of a second chat model
  std::map<WorkerId, SimEncoder*> encoders;                       // alive, of a second model
  std::map<std::pair<WorkerId, UnfoldingKind>, SimCells*> cells;  // so, too, of models of cells
  // Devices of one worker share its cores: a batch begins when the one before it ends,
  // whichever model's it is. max(): never, one hangs.
  std::map<WorkerId, TimePoint> busy_until;
  std::set<std::uint64_t> ended;  // sequences that must not be seen again
  std::vector<std::string> violations;
  std::vector<HostPage> host_pages;         // of all workers, and outlive their devices
  std::vector<HostPage> second_host_pages;  // so, too, of a second chat model
  // Asked for every load: is what is there damaged?
  std::function<bool()> choose_damage;
  // Asked for every mask that a batch awaits and that is there: did it come too late?
  std::function<bool()> choose_late_mask;
  std::uint64_t num_masks_in_time = 0, num_masks_late = 0;
  std::uint64_t num_stores = 0, num_loads = 0, num_failed_loads = 0;
  std::uint64_t num_copies_within = 0;
  std::uint64_t num_reads_under_way = 0;  // by the disk
  // Clients that left while pages were on their way: from the host, to it, from the disk.
  std::uint64_t num_left_in_load = 0, num_left_in_store = 0, num_left_in_read = 0;
  void note_departure();
  // A batch of a worker that takes so long. Throws where its fault is to be refused.
  Begun begin(WorkerId worker, const Batch& batch, std::chrono::nanoseconds cost);
};

// By id, how often each token with a penalty was generated.
using SimCounts = std::map<std::int32_t, std::uint32_t>;

// The token after `tokens`: letters, and now and then the end; some letter is allowed. Penalties give
// another one, which depends on all that they are for.
std::int32_t sim_token(std::span<const std::int32_t> tokens, std::uint64_t seed,
                       std::span<const std::int32_t> suppressed, const SimCounts& penalized = {},
                       const TokenMask& allowed = {});  // empty: all
// Tokens that are drawn behind `tokens` until the end, with it; at most 256.
std::uint32_t sim_tokens_left(std::vector<std::int32_t> tokens, std::uint64_t seed);
// Of a token drawn for a position.
float sim_logprob(std::int32_t token, std::size_t position);

class SimDevice final : public Device {
 public:
  SimDevice(SimDeviceSettings settings, std::shared_ptr<SimDevices> shared, WorkerId worker);
  ~SimDevice() override;

  const DeviceDescription& description() const override { return settings_.description; }
  Ticket submit(std::shared_ptr<const Program> program, std::shared_ptr<const Batch> batch) override;
  Ticket completed() const noexcept override;
  BatchResult collect(Ticket ticket) override;
  void set_listener(std::function<void()> listener) override { listener_ = std::move(listener); }
  std::optional<std::chrono::nanoseconds> poll_delay() const override;
  bool can_be_abandoned() const override { return settings_.can_be_abandoned; }

  bool has_move_in_flight(bool to_host) const;
  // When the listener has to be called next; max() if never.
  TimePoint next_completion() const;
  void ring_if_due();

 private:
  static constexpr std::int32_t kUnwritten = -1;
  static constexpr std::int32_t kVoid = -2;     // of a page that could not be loaded
  static constexpr std::int32_t kUndrawn = -3;  // of a token for which no mask came

  struct Submitted {
    std::shared_ptr<const Batch> batch;
    TimePoint done;
    Fault fault = Fault::kNone;
  };

  auto& siblings() { return settings_.is_second ? shared_->second_chats : shared_->alive; }
  void check(const Batch& batch);
  void move(const Batch& batch, BatchResult& result);
  bool reads_void(const Batch& batch, const SequenceSlice& slice) const;
  bool is_in_flight_elsewhere(const Batch& batch, const SequenceSlice& slice) const;
  std::int32_t execute(const Batch& batch, std::size_t index, std::size_t first_token);
  void hand_out_state(const Batch& batch, const SequenceSlice& slice, BatchResult& result);
  std::uint64_t seed_of(const SequenceSlice& slice) const;
  std::shared_ptr<const TokenMask> awaited_mask(MaskSlot& slot);
  SimCounts counts_of(const Batch& batch, const SequenceSlice& slice);
  std::int32_t& kv(const Batch& batch, const SequenceSlice& slice, std::uint32_t position);
  void write(const Batch& batch, const SequenceSlice& slice, std::uint32_t position, std::int32_t token);
  void report(const Batch& batch, const SequenceSlice& slice, const std::string& what);

  SimDeviceSettings settings_;
  std::shared_ptr<SimDevices> shared_;
  WorkerId worker_;
  std::function<void()> listener_;
  std::deque<Submitted> queue_;  // submitted, not collected
  Ticket num_submitted_ = 0;
  Ticket num_collected_ = 0;
  Ticket num_rung_ = 0;
  std::vector<std::vector<std::int32_t>> pages_;
  std::vector<std::int32_t> slots_;
  std::vector<std::array<std::int32_t, kRecentTokens>> recent_;  // by slot
};

}  // namespace troupe::sim
