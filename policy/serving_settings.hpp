// SPDX-License-Identifier: Apache-2.0
// Settings of the core and its page cache, and the table by which people name them. A
// new one is a member and a row here, and a use: the server's flags, file, environment
// and help, the simulator's flags and stored profiles all follow the table.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/admitting/waiting_line.hpp"
#include "policy/forming/batch_trigger.hpp"
#include "policy/forming/encoder_batches.hpp"
#include "policy/lengths/reservation.hpp"
#include "policy/setting.hpp"

namespace troupe {

// Which KV pages go first when there is no room; kNone: a page is free when its
// sequence lets go.
enum class EvictionPolicy : std::uint8_t { kValue, kLru, kNone };

// How nodes of recurrent cells share batches: ready nodes of any requests (BatchMaker), or, to
// be compared with it: whole graphs, padded, whose batch is left when all are done; each
// request alone, by turns.
enum class CellBatching : std::uint8_t { kCells, kWholeGraphs, kInstances };

struct ServingSettings {
  std::uint32_t max_batch_tokens = 512;  // token budget of an iteration
  std::uint32_t max_batch_sequences = 64;
  std::uint32_t prefill_chunk = 256;  // most prompt tokens of one sequence in a batch
  bool separates_prefill = false;     // as BatchLimits
  // An iteration with prompts takes at most so many times one that only decodes; 0:
  // however long.
  double itl_factor = 2.5;
  std::uint32_t max_in_flight = 2;   // batches of a worker submitted and not yet done
  std::uint32_t max_waiting = 1024;  // requests queued; beyond: they are refused
  // A prompt that is not encoded, or a request that has no turn, by then is refused.
  std::chrono::milliseconds max_queue_time{30000};
  std::uint32_t look_ahead_pages = 1;  // pages leased beyond the present need
  ReservationPolicy reservation = ReservationPolicy::kOnDemand;
  double reserved_quantile = 0;  // kPredicted: this share of answers fits its reservation; 0: as costs say
  AdmissionOrder admission_order = AdmissionOrder::kArrival;  // of a flow's requests
  double most_wait = 4;                                       // where that is by length, the k of WaitingLine
  EncoderBatching encoder_batching = EncoderBatching::kRagged;
  BatchTrigger encoder_trigger = BatchTrigger::kHungry;
  std::chrono::milliseconds encoder_timeout{5};    // as TriggerRule
  std::chrono::milliseconds encoder_objective{0};  // so, too
  CellBatching cell_batching = CellBatching::kCells;
  std::uint32_t cell_bucket_width = 10;  // kWholeGraphs: steps by which chains of a batch differ
  // kCells: batches of one cell that a worker submits in a row while others wait, BatchMaker's
  // MaxTasksToSubmit, each but the first of at least so many nodes. On cores a newcomer would
  // wait for all of them, so they are few.
  std::uint32_t max_cell_tasks = 2;
  std::uint32_t min_cell_batch = 1;
  EvictionPolicy cache_policy = EvictionPolicy::kValue;
  // By value, what a page is worth is divided by its age to this power; Pensieve's: 1.
  double age_exponent = 1.5;
  std::chrono::milliseconds keep_for{0};  // pages not used for so long go; 0: they stay
  // Vectors of encoders that are kept to answer the same input again; 0: none.
  std::uint64_t vector_cache_bytes = 0;
  std::chrono::milliseconds keep_vectors_for{3'600'000};
  // Copies leave for the host ahead of need while fewer pages of a device than this
  // share could be given away at once (Pensieve, §3.4.3).
  double copy_ahead_below = 0.25;
  // A request joins others only while more than this share of pages stays free.
  double keep_free = 0.10;

  // Is anything decided by how long answers are likely to be?
  bool foresees_lengths() const {
    return reservation == ReservationPolicy::kPredicted || admission_order != AdmissionOrder::kArrival;
  }
  // 0: as costs say. The longest first, which packs by what is set aside, and forecasts of which nothing is,
  // are served better by a fixed one (docs/decisions/0027-lengths-foreseen.md).
  double aimed_quantile() const {
    const bool has_costs =
        reservation == ReservationPolicy::kPredicted && admission_order != AdmissionOrder::kLongestFirst;
    return reserved_quantile > 0 || has_costs ? reserved_quantile : 0.6;
  }
  TriggerRule encoder_trigger_rule() const {
    return {.trigger = encoder_trigger, .timeout = encoder_timeout, .objective = encoder_objective};
  }
  bool keeps_prefixes() const { return cache_policy != EvictionPolicy::kNone; }
};

// By section of the file.
inline std::span<const Setting<ServingSettings>> serving_table() {
  using S = ServingSettings;
  using Unit = SettingUnit;
  // clang-format off
  static const std::vector<Setting<S>> table = {
      {"scheduler.max_batch_tokens", "--max-batch-tokens",
       "token budget of an iteration (0: 512 on the host, 2048 on a GPU)", &S::max_batch_tokens, 0, 65536},
      {"scheduler.max_batch_sequences", "--max-batch-sequences",
       "sequences that run at once (auto: 64 on the host, 256 on a GPU)",
       &S::max_batch_sequences, 1, 4096, {}, Unit::kNone, {}, nullptr, 0},
      {"scheduler.prefill_chunk", "--prefill-chunk",
       "most prompt tokens of one sequence in an iteration (0: 256 on the host, 2048 on a GPU)",
       &S::prefill_chunk, 0, 65536},
      {"scheduler.separate_prefill", "--separate-prefill",
       "prompts in iterations of their own, before everyone who decodes, instead of beside them",
       &S::separates_prefill},
      {"scheduler.itl_factor", "--itl-factor",
       "an iteration with prompts takes at most so many times one that only decodes, and at least 32 "
       "prompt tokens; 0: as many as fit", &S::itl_factor, 0, 1000},
      {"scheduler.max_in_flight", "--max-in-flight",
       "batches submitted and not yet done, for all of which a newcomer waits (auto: 2, up to 4 on a GPU "
       "whose batches take less time than the host's turn)",
       &S::max_in_flight, 1, 16, {}, Unit::kNone, {}, nullptr, 0},
      {"scheduler.max_waiting", "--max-waiting",
       "requests that may wait; beyond, flows with most of them get 429", &S::max_waiting, 1, 65536},
      {"scheduler.max_queue_seconds", "--max-queue-seconds", "longest wait before 429",
       &S::max_queue_time, 1, 3600, {}, Unit::kSeconds},
      {"scheduler.look_ahead_pages", "--look-ahead-pages", "KV pages leased beyond the present need",
       &S::look_ahead_pages, 0, 64},
      {"scheduler.reservation", "--reservation",
       "memory that is set aside for an answer before it is there: on_demand (none), max (its max_tokens), "
       "history (as the last answers were), predicted (as long as it is foreseen), oracle (as long as its "
       "request foretells in troupe_answer_tokens, as load generators and simulations do; else as max)", &S::reservation, 0, 0, {"on_demand", "max", "history", "predicted", "oracle"}},
      {"scheduler.reserved_percent", "--reserved-percent",
       "the share of answers that is to fit what is predicted for it (50: half; auto: by what too little and "
       "too much cost, and 60 with longest_first)",
       &S::reserved_quantile, 1, 99, {}, Unit::kPercent, {}, nullptr, 0},
      {"scheduler.admission_order", "--admission-order",
       "which of a flow's waiting requests is next: arrival, longest_first (packs memory), or "
       "shortest_first (the shortest mean wait), by predicted length",
       &S::admission_order, 0, 0, {"arrival", "longest_first", "shortest_first"}},
      {"scheduler.most_wait", "--most-wait",
       "by length, work that overtakes a waiting request is at most (this - 1) times its own and what is in "
       "front of it",
       &S::most_wait, 0, 1000},
      {"scheduler.encoder_batching", "--encoder-batching",
       "batches of encoders: ragged (no padding), padded (all that wait, padded to the longest), none (one "
       "text), or dp (padded, cut for the least time, by measured costs)",
       &S::encoder_batching, 0, 0, {"ragged", "padded", "none", "dp"}},
      {"scheduler.encoder_trigger", "--encoder-trigger",
       "when an encoder's batch starts: hungry (as soon as the device is free) or lazy (when it is full, at "
       "the time-out, or as late as half of the objective allows)",
       &S::encoder_trigger, 0, 0, {"hungry", "lazy"}},
      {"scheduler.encoder_timeout_milliseconds", "--encoder-timeout-milliseconds",
       "lazy: longest wait of a text for others", &S::encoder_timeout, 0, 60000},
      {"scheduler.encoder_objective_milliseconds", "--encoder-objective-milliseconds",
       "lazy: the latency that a text is to have; 0: none is wanted", &S::encoder_objective, 0, 600000},
      {"scheduler.cell_batching", "--cell-batching",
       "how requests of recurrent networks share batches: cells (a request joins and leaves at any step), or "
       "to compare with it whole_graphs (padded, left when all are done) or instances (each request alone)",
       &S::cell_batching, 0, 0, {"cells", "whole_graphs", "instances"}},
      {"scheduler.cell_bucket_width", "--cell-bucket-width",
       "with whole graphs, lengths in (10 i, 10 i + 10] share batches, each padded to the longest in it, if "
       "this is 10",
       &S::cell_bucket_width, 1, 65536},
      {"scheduler.max_cell_tasks", "--max-cell-tasks",
       "batches of one recurrent cell in a row before another's turn", &S::max_cell_tasks, 1, 1024},
      {"scheduler.min_cell_batch", "--min-cell-batch",
       "each of these but the first has at least so many nodes", &S::min_cell_batch, 1, 65536},
      {"cache.policy", "--cache-policy",
       "which KV goes first when there is no room: value (cheap to compute again, long unused), "
       "lru, or none to keep nothing", &S::cache_policy, 0, 0, {"value", "lru", "none"}},
      {"cache.age_exponent", "--cache-age-exponent",
       "by value, what KV costs to compute again is divided by the time since it was used to this "
       "power (1: as in Pensieve)", &S::age_exponent, 0, 8},
      {"cache.keep_days", "--cache-keep-days",
       "KV that was not used for so many days goes; 0: it stays", &S::keep_for, 0, 36500, {}, Unit::kDays},
      {"cache.vector_space", "--cache-vector-space",
       "memory for vectors of encoders, by which an input that comes again from the same tenant is answered "
       "without computing it; 0: none are kept", &S::vector_cache_bytes, 0, UINT64_MAX, {}, Unit::kBytes},
      {"cache.vector_seconds", "--cache-vector-seconds", "vectors are kept for so long",
       &S::keep_vectors_for, 1, 31536000, {}, Unit::kSeconds},
      {"cache.copy_ahead_percent", "--cache-copy-ahead-percent",
       "copy KV to the host ahead of need while less than this share of pages could be given away "
       "at once", &S::copy_ahead_below, 0, 100, {}, Unit::kPercent},
      {"cache.keep_free_percent", "--cache-keep-free-percent",
       "a request joins others only while this share of pages stays free",
       &S::keep_free, 0, 90, {}, Unit::kPercent},
  };
  // clang-format on
  return table;
}

}  // namespace troupe
