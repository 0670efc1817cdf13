// SPDX-License-Identifier: Apache-2.0
// A number for a state of a core: equal numbers, up to collisions of 64 bits, mean
// states that behave alike from now on. Numbers that only grow (runs, leases, batches,
// generations, arrivals) count by their order, or by where they first come up, not by
// their values. Statistics are left out: nothing is decided by them.
//
// A field that is added to the core and decides anything has to be added here; the
// explorer compares what becomes of states that it takes for equal, and so finds out.
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/model_cores.hpp"

namespace troupe {

class Fingerprint {
 public:
  void add(std::uint64_t value);
  void add_tokens(std::span<const std::int32_t> tokens);
  void add_generation(std::uint64_t generation);
  void add_copies(std::span<const PageCopy> copies);
  bool is_known_generation(std::uint64_t generation) const { return generations_.contains(generation); }
  void add_core(const EngineCore& core);
  void add_core(const EncoderCore& core);
  void add_core(const CellCore& core);
  // All of it but the cores; with one model there is no more.
  void add_turns(const ModelCores& cores);
  std::uint64_t value() const { return hash_; }

  // What the core's pages say: for the model of the devices.
  static std::span<const std::uint32_t> free_pages(const EngineCore& core, WorkerId worker);
  static std::span<const PageCopy> pending_copies(const EngineCore& core, WorkerId worker);
  static std::span<const SlotId> free_rows(const CellCore& core, WorkerId worker);

 private:
  using TimePoint = EngineCore::TimePoint;
  // Numbers, each by where it first came up.
  using Names = std::map<std::uint64_t, std::uint32_t>;

  static std::uint32_t name(Names& names, std::uint64_t number);
  void add_time(TimePoint time) { add(static_cast<std::uint64_t>(time.time_since_epoch().count())); }
  void add_number(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  void add_duration(std::chrono::nanoseconds time) { add(static_cast<std::uint64_t>(time.count())); }
  void name_leases(const PageCache& cache);
  void add_sequence(const EngineCore& core, const Sequence& sequence);
  void add_progress(const SequenceProgress& progress);
  void add_worker(const EngineCore& core, const EngineCore::Worker& worker);
  void add_flight(const EngineCore& core, const EngineCore::Flight& flight);
  void add_run(const CellCore& core, const CellCore::Run& run);
  void add_progress(const GraphProgress& progress);
  void add_worker(const CellCore& core, const CellCore::Worker& worker);
  void add_flight(const CellCore& core, const CellCore::Flight& flight);
  void add_health(const WorkerHealth& health);
  void add_pace(const PrefillPace& pace);
  // id_of: the id of the sequence that arrived so.
  template <class IdOf>
  void add_flows(const FairQueue& flows, const IdOf& id_of);
  void add_suspects(const Suspects& suspects);
  void add_pages(const PageMap& pages, const EngineCore& core);
  void add_cache(const PageCache& cache);
  void add_place(const PagePlace& place);
  void add_tree(const PrefixTree& tree);
  void add_device(const DeviceBook& device);
  void add_host(const HostBook& host);
  void add_disk(const DiskBook& disk);
  void add_queue(const EvictionQueue& queue);
  void add_watch(const WatchedTime& watch);

  std::uint64_t hash_ = 0x243F6A8885A308D3U;
  Names generations_, leases_;
};

}  // namespace troupe
