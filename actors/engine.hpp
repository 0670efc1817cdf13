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

#include "actors/request/embedding_request.hpp"
#include "actors/request/generation_request.hpp"
#include "engine/admission_ticket.hpp"
#include "engine/model_kind.hpp"
#include "engine/trouble.hpp"
#include "gpu/device.hpp"
#include "gpu/networks/network.hpp"
#include "policy/costs/encoder_costs.hpp"
#include "policy/costs/recompute_cost.hpp"
#include "policy/pages/restore_choice.hpp"
#include "policy/serving_settings.hpp"
#include "telemetry/metrics/metrics.hpp"
#include "text/chat_template.hpp"
#include "text/history/turn_memory.hpp"
#include "text/tokenizer/tokenizer.hpp"

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

// Makes the device of a worker; called again when the worker had to be replaced. By
// the workers' threads, of several workers at once. Throws std::runtime_error if it
// can't.
using DeviceFactory = std::function<std::unique_ptr<Device>(WorkerId)>;

// A model that the engine serves. Shared and immutable.
struct ServedModel {
  std::string name;
  ModelKind kind = ModelKind::kGenerative;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // may be null
  std::uint64_t vocabulary = 0;                       // vocabulary_fingerprint() of the stored tokens
  // No other model has it: of the files and how they are computed. nullopt: not known, so nothing is kept by
  // it, and nothing that was kept is read.
  std::optional<std::uint64_t> fingerprint = {};
  std::uint32_t vector_size = 0;           // of kEmbedding
  std::shared_ptr<const Network> network;  // null: the device needs no programs
  std::vector<std::int32_t> eos_tokens;
  std::int32_t bos_token = -1;
  DataType compute_type = DataType::kF32;
  RecomputeCost recompute_cost = {};  // of a KV page, by what is in front of it
  EncoderCosts encoder_costs = {};    // of padded batches, where they are planned
  // As CoreOptions::max_cell_batches, where its cells keep rows.
  std::vector<std::uint32_t> max_cell_batches = {};
  std::string encoder_cost_key;  // they are kept for it, as learnt since; empty: they are not

  // The rule of its graphs, where its cells keep rows; nullopt: it has pages, or encodes in passes.
  std::optional<UnfoldingRule> unfolding() const { return network ? network->unfolding() : std::nullopt; }
  // The rule of an encoder-decoder's sequences; nullopt: it is none that keeps pages.
  std::optional<SourceRule> source() const { return network ? network->source() : std::nullopt; }
  bool has_pages() const { return kind == ModelKind::kGenerative && !unfolding(); }
};

// One of the models that an engine serves.
struct EngineModel {
  ServedModel served;
  DeviceFactory make_device;
  std::optional<ServingSettings> serving = {};  // of its core; nullopt: the engine's
};

class DiskTier;

// Where pages are kept that no sequence uses, beside the device.
struct CacheOptions {
  // Cost of a load, per page; zeros: not known, every load is made.
  LoadCost load_from_host = {}, load_from_disk = {};
  std::shared_ptr<DiskTier> disk;  // null: none. Needs pages on the host
  bool is_disk_lacking = false;    // one is wanted and can't be used now; what it kept is to stay
};

class StateDirectory;

// Where responses are kept.
struct StoreOptions {
  std::shared_ptr<const StateDirectory> directory;  // null: nowhere
  std::chrono::hours keep{30 * 24};
};

struct EngineOptions {
  ServingSettings serving;
  // Bytes that requests hold at any time: text of long prompts, and vectors of embedding
  // requests. A tenant may hold as much as is still free, so that one alone gets half;
  // beyond: kOverloaded.
  std::size_t max_prompt_bytes = std::size_t{256} << 20;
  std::size_t pause_bytes = 64 * 1024;
  std::uint32_t num_workers = 1;  // each with a device of its own
  // Restarts of one worker within restart_window. Beyond, the worker is given up; if it
  // was the last one, the engine has failed.
  std::uint32_t max_restarts = 3;
  std::chrono::seconds restart_window{60};
  std::uint32_t actor_threads = 1;
  bool logs_requests = false;  // a line for each at level info, not only debug
  CacheOptions cache;
  StoreOptions store;
  TurnMemoryLimits turn_memory;
  // It is of ModelKind::kEmbedding and reads the prompts that wait, which helps to foresee lengths; nullopt:
  // none does.
  std::optional<ModelIndex> length_encoder = {};
};

// kNone: nothing is kept. kUnusable: the file can't be opened; it is tried again
// when it is needed. kReadOnly: a sync has failed, and until the next start what
// is stored is read and nothing else.
enum class StoreState : std::uint8_t { kNone, kOpening, kWorks, kReadOnly, kUnusable };

// The store of responses: its state and its counts.
struct StoreStatus {
  StoreState state = StoreState::kNone;
  std::uint32_t num_saving = 0;  // handed to the store and not on the disk yet
  // Since the process began: how often the file was damaged, the responses that
  // could still be read, those that are known to be lost.
  std::uint64_t num_damages = 0, num_salvaged = 0, num_lost = 0;
};

enum class EngineState : std::uint8_t { kStarting, kReady, kDraining, kFailed, kStopped };

// Open requests by what they wait for; a request that is being started or ended is
// in none of these.
struct EngineStatus {
  EngineState state = EngineState::kStarting;
  Trouble trouble = Trouble::kNone;
  std::uint32_t num_workers_up = 0, num_workers = 0;
  std::uint32_t num_encoding = 0;  // for the prompt encoder
  std::uint32_t num_in_store = 0;  // for the response store: to be read or saved
  std::uint32_t num_waiting = 0;   // for pages or a slot
  std::uint32_t num_fetching = 0;  // of these, for pages from the disk; counted four times a second
  std::uint32_t num_running = 0;   // for the device
  std::uint32_t num_paused = 0;    // for their clients to read
  std::uint32_t pages_total = 0, pages_free = 0, pages_cached = 0, pages_running = 0;
  StoreStatus store = {};
};

using RequestId = std::uint64_t;

class Tracer;

class Engine {
 public:
  // Returns at once; the device starts in the background (kStarting). Requests
  // submitted meanwhile wait. If it can't start, the state becomes kFailed.
  // Metrics and tracer outlive the engine; without a tracer nothing is traced.
  // models: by ModelIndex. Every worker has a device for each. The disk
  // (EngineOptions::cache) keeps pages of the first model that generates.
  Engine(std::vector<EngineModel> models, EngineOptions options, Metrics& metrics, Tracer* tracer = nullptr);
  Engine(ServedModel model, DeviceFactory make_device, EngineOptions options, Metrics& metrics,
         Tracer* tracer = nullptr);
  ~Engine();  // bounded: stop() if it has not been called

  // Never blocks, never throws on account of the request: what is wrong with
  // it comes as Failed. The sink is released after its terminal event.
  RequestId submit(GenerationRequest request, std::shared_ptr<ResponseSink> sink);

  // As submit(), for vectors in place of text: Embedded or Failed is the only event.
  RequestId embed(EmbeddingRequest request, std::shared_ptr<ResponseSink> sink);

  // Asks the store. Never blocks; the sink gets StoreAnswer or Failed, perhaps
  // before this returns.
  void look_up(StoreQuery query, std::shared_ptr<ResponseSink> sink);

  // Removes a response in the background from the journal, so no later process takes it up.
  // For one that no request runs.
  void end_journal(std::string response);

  // Gives up everything the request holds, in whatever state it is. Its
  // terminal event is Finished{kCancelled} unless it had ended already.
  void cancel(RequestId id);

  // The sink has drained; the sequence may run again.
  void resume(RequestId id);

  EngineStatus status() const;

  // Why the state is kFailed; empty otherwise.
  std::string failure() const;

  // Finds out whether the actors act: without a sign of them for 10 s the trouble
  // is kEngineHangs, after a minute the engine has failed. To be called about every
  // fifth of a second, by one thread that is none of the engine's, until stop(). A sign is
  // asked for while requests are open, else if is_sign_wanted. Returns the signs so far.
  std::uint64_t watch(bool is_sign_wanted = false);

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
