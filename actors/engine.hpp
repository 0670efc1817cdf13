// SPDX-License-Identifier: Apache-2.0
// The door to the actors: everything the HTTP server, the command line and the
// benches need to know of the engine. No CAF here. All methods may be called
// from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/generation_request.hpp"
#include "gpu/device.hpp"
#include "gpu/networks/network.hpp"
#include "policy/eviction_queue.hpp"
#include "policy/recompute_cost.hpp"
#include "policy/restore_choice.hpp"
#include "telemetry/metrics.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

namespace troupe {

// Where a request's events go. Called on engine threads, one call at a time for
// one request, in order; must not block.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  virtual void deliver(ResponseEvent event) = 0;
  // Bytes delivered but not yet taken by the client. Above
  // EngineOptions::pause_bytes the sequence leaves the batch until resume().
  virtual std::size_t pending_bytes() const noexcept = 0;
};

// Makes a device; called again by the supervisor when a worker has to be
// replaced. Throws std::runtime_error if it can't.
using DeviceFactory = std::function<std::unique_ptr<Device>()>;

// What the engine serves. Shared and immutable.
struct ServedModel {
  std::string name;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // may be null
  std::uint64_t vocabulary = 0;                       // whose tokens are stored: vocabulary_fingerprint()
  std::shared_ptr<const Network> network;             // null: the device needs no programs
  std::vector<std::int32_t> eos_tokens;
  std::int32_t bos_token = -1;
  DataType compute_type = DataType::kF32;
  RecomputeCost recompute_cost = {};  // of a KV page, by what is in front of it
};

class DiskTier;

// What is kept of sequences that have ended, or had to make room.
struct CacheOptions {
  bool keeps_prefixes = true;
  EvictionPolicy policy = EvictionPolicy::kValue;
  // Copies leave for the host ahead of need while fewer device pages than this
  // share could be given away at once (Pensieve, §3.4.3).
  double copy_ahead_below = 0.25;
  // What a load costs, per page; zeros: not known, all are made.
  LoadCost load_from_host = {}, load_from_disk = {};
  std::shared_ptr<DiskTier> disk;    // null: none. Needs pages on the host
  std::chrono::seconds keep_for{0};  // pages not used for so long go; 0: they stay
  // A request joins others only while more than this share stays free.
  double keep_free = 0.10;
  // Of the keys by which pages are found; fewer only in tests: collisions must do no harm.
  unsigned page_hash_bits = 128;
};

class StateDirectory;

// Where responses are kept.
struct StoreOptions {
  std::shared_ptr<const StateDirectory> directory;  // null: nowhere
  std::chrono::hours keep{30 * 24};
};

struct EngineOptions {
  std::uint32_t max_batch_tokens = 512;  // token budget of an iteration
  std::uint32_t max_batch_sequences = 64;
  std::uint32_t prefill_chunk = 256;  // most prompt tokens of one sequence in a batch
  bool separates_prefill = false;     // as BatchLimits
  std::uint32_t max_in_flight = 2;    // batches submitted and not yet done
  std::uint32_t max_waiting = 1024;   // requests queued; beyond: kOverloaded
  std::chrono::milliseconds max_queue_time{30000};
  std::uint32_t look_ahead_pages = 1;  // pages leased beyond the present need
  std::size_t pause_bytes = 64 * 1024;
  std::uint32_t max_restarts = 3;  // worker restarts within restart_window, then failure
  std::chrono::seconds restart_window{60};
  std::uint32_t actor_threads = 1;
  bool logs_requests = false;  // a line for each at level info, not only debug
  CacheOptions cache;
  StoreOptions store;
};

enum class EngineState : std::uint8_t { kStarting, kReady, kDraining, kFailed, kStopped };

struct EngineStatus {
  EngineState state = EngineState::kStarting;
  std::uint32_t num_waiting = 0;
  std::uint32_t num_running = 0;
  std::uint32_t pages_total = 0, pages_free = 0, pages_cached = 0, pages_running = 0;
  // Is progress made? True while idle, and while the newest batch finished
  // within max(10 s, 5 x its predicted time).
  bool tokens_move = true;
};

using RequestId = std::uint64_t;

class Tracer;

class Engine {
 public:
  // Returns at once; the device starts in the background (kStarting). Requests
  // submitted meanwhile wait. If it can't start, the state becomes kFailed.
  // Metrics and tracer outlive the engine; without a tracer nothing is traced.
  Engine(ServedModel model, DeviceFactory make_device, EngineOptions options, Metrics& metrics,
         Tracer* tracer = nullptr);
  ~Engine();  // bounded: stop() if it has not been called

  // Never blocks, never throws on account of the request: what is wrong with
  // it comes as Failed. The sink is released after its terminal event.
  RequestId submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink);

  // Asks the store. Never blocks; the sink gets StoreAnswer or Failed, perhaps
  // before this returns.
  void look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink);

  // Gives up everything the request holds, in whatever state it is. Its
  // terminal event is Finished{kCancelled} unless it had ended already.
  void cancel(RequestId id);

  // The sink has drained; the sequence may run again.
  void resume(RequestId id);

  EngineStatus status() const;

  // Why the state is kFailed; empty otherwise.
  std::string failure() const;

  // Refuses new requests, lets accepted ones finish until the deadline, then
  // cancels them. Returns when nothing is left or the deadline has passed.
  void drain(std::chrono::milliseconds deadline);

  // Returns when what was computed is on disk as far as it is to be, or at the
  // deadline. After drain().
  void flush(std::chrono::milliseconds deadline);

  // Ends the actors and their threads; drains first, without waiting, if that
  // has not been done. False if some did not end (a device that hangs): the
  // process should then leave by std::_Exit. Nothing but status() and failure()
  // may be called afterwards, or stop() once more. The destructor does this too.
  [[nodiscard]] bool stop(std::chrono::milliseconds deadline);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
