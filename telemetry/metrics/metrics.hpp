// SPDX-License-Identifier: Apache-2.0
// Every metric the server exports, by name, in one place. Recording takes no
// lock and may be done from any thread. scripts/metrics-table lists them in
// docs/metrics.md, with the meaning and the equivalent in vLLM.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/metrics/exposition_format.hpp"

namespace prometheus {
class Counter;
class Gauge;
}  // namespace prometheus

namespace troupe {

class ExponentialHistogram;

// Handles: as small as a pointer, valid as long as their Metrics.
class Counter {
 public:
  explicit Counter(prometheus::Counter* counter = nullptr) : counter_(counter) {}
  void add(double amount = 1.0) const;

 private:
  prometheus::Counter* counter_;
};

class Gauge {
 public:
  explicit Gauge(prometheus::Gauge* gauge = nullptr) : gauge_(gauge) {}
  void set(double value) const;
  void add(double amount) const;

 private:
  prometheus::Gauge* gauge_;
};

class Histogram {
 public:
  explicit Histogram(ExponentialHistogram* histogram = nullptr) : histogram_(histogram) {}
  void observe(double value) const;

 private:
  ExponentialHistogram* histogram_;
};

struct MetricsOptions {
  std::string version;                    // of the program, for troupe_build_info
  bool vllm_names = true;                 // metrics of equal meaning also under vLLM's names
  std::uint32_t context_length = 131072;  // where vLLM's buckets of token counts end
};

// Metrics of one worker, with its number in the label `worker`. Nothing of it is counted twice
// by those without the label: they are for all workers together.
struct WorkerMetrics {
  Gauge up;  // 1: it has a device that works
  Gauge requests_running, batches_in_flight;
  Gauge pages_free, pages_cached, pages_running;
  Counter iterations, restarts;
};

// Accuracy of one stage of the predictor of lengths, with its name in the label `stage`.
struct ForecastStageMetrics {
  Gauge loss;       // tokens
  Gauge log_error;  // of logarithms
  Gauge tau;        // from -1 to 1
};

// Metrics of one tenant, with its name in the label `tenant`.
struct TenantMetrics {
  Gauge requests, tokens_in_flight;
  Counter tokens;  // of prompts and answers
  // by_tenant_refused_total{limit}
  Counter refused_requests, refused_tokens, refused_rate;
};

class Metrics {
 public:
  explicit Metrics(std::string_view model_name, MetricsOptions options = {});
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Makes the metrics of so many workers; there are those of one. Not while others record.
  void have_workers(std::uint32_t num_workers);

  // The same name gives the same ones. Any thread.
  TenantMetrics of_tenant(const std::string& name);

  // The body of /metrics. Takes about a millisecond, and makes no other thread wait.
  std::string expose(ExpositionFormat format = ExpositionFormat::kText) const;
  // So, too, without what other tenants have of of_tenant().
  std::string expose_to(const std::string& tenant, ExpositionFormat format) const;

  // requests_total{finished_reason}
  Counter requests_stop, requests_length, requests_cancelled, requests_error;
  // requests_refused_total{reason}: ended before they ever ran
  Counter refused_invalid;       // the request can't be served, or not like this
  Counter refused_too_long;      // for the context or the pages
  Counter refused_unauthorized;  // no key, or a wrong one
  Counter refused_overload;      // too many waited already
  Counter refused_queue_time;    // waited too long for its turn
  Counter refused_displaced;     // waited, and made room for a flow with fewer requests
  Counter refused_rate;          // a limit of its tenant
  Counter refused_draining;
  Counter refused_unavailable;                                          // the engine has failed
  Counter prompt_tokens, cached_prompt_tokens, computed_prompt_tokens;  // of finished prefills
  Counter generation_tokens;
  Counter recomputed_tokens;  // computed a second time: after a preemption, a pause, a restart
  Gauge requests_running, requests_waiting, requests_paused;
  Gauge flows_waiting;  // that have requests waiting
  Gauge ready;          // 1: send requests here

  // calls_unbound_total{reason}: answers with calls that were to be bound to their schemas, and were not, or
  // not to their end
  Counter unbound_place;    // as many are as may be at once, in all or of one tenant
  Counter unbound_schema;   // no grammar of the calls can be followed, not even of any arguments
  Counter unbound_mask;     // from some place on, where a mask would have taken too long
  Counter unbound_earlier;  // an earlier process did not bind them

  // seconds, of a request
  Histogram time_to_first_token;    // from arrival
  Histogram inter_token_latency;    // each gap
  Histogram time_per_output_token;  // mean of its gaps
  Histogram normalized_latency;     // end to end / output tokens
  Histogram end_to_end_latency;
  Histogram queue_time, prefill_time, decode_time;
  Histogram inference_time;  // prefill and decode
  // of a request that has finished
  Histogram prompt_length, generation_length;  // tokens
  Histogram asked_max_tokens;                  // the parameter, if it was given
  Histogram asked_choices;                     // the parameter n

  // of models that encode
  Counter embedding_requests;  // answered
  Histogram embedding_time;    // seconds, arrival to answer
  Counter encoder_batches, encoder_inputs, encoder_tokens;
  Counter vector_cache_queries, vector_cache_hits;  // inputs
  Gauge vector_cache_bytes;

  // iterations, of models that generate
  Counter iterations, preemptions, worker_restarts;
  Counter prefill_tokens, decode_tokens;  // batch_tokens_total{phase}
  Counter lengths_forecast, reservations_refined, reservations_shrunk;
  Counter reservations_grown, reservations_given_up;  // reservation_overruns_total{outcome}
  Gauge forecast_quantile;                            // share of answers that is to fit
  Gauge forecast_coverage;                            // that did
  std::array<Gauge, 10> forecast_tenths;              // so, too, by what was reserved
  Gauge forecast_log_error;
  std::array<ForecastStageMetrics, 5> forecast_stages;  // as LengthStage
  Gauge forecast_loss_constant;
  Gauge looks_loss, looks_standing_loss, looks_coverage;  // at answers that run
  Gauge states_learnt;                                    // answers
  Gauge looks_learnt;
  Gauge vectors_learnt;                                                  // answers
  Counter prompts_read_done, prompts_read_skipped, prompts_read_failed;  // {outcome}
  Counter forecast_time;                                                 // seconds, of the predictor
  Histogram batch_tokens, batch_sequences;
  Histogram iteration_time, network_time;  // seconds; their difference is the engine's
  Gauge batches_in_flight;

  std::vector<WorkerMetrics> workers;  // by WorkerId

  // pages
  Gauge pages_capacity, page_tokens;
  Gauge pages_free, pages_cached, pages_running;
  Gauge host_pages_capacity, host_pages_free, host_pages_cached;
  Gauge disk_pages_capacity, disk_pages_free, disk_pages_cached;
  // kv_pages_evicted_total{tier,to}
  Counter pages_kept_on_host, pages_dropped, host_pages_kept_on_disk, host_pages_dropped;
  Counter disk_pages_dropped;
  // kv_pages_ended_total{reason}
  Counter pages_forgotten, pages_expired;
  Counter pages_stored, pages_loaded;                     // to the host and from it
  Counter pages_written, pages_read, disk_writes_failed;  // to the disk and from it
  Counter pages_not_intact, disk_pages_not_intact;
  Counter prefix_cache_queries;                                               // tokens
  Counter prefix_cache_hits, prefix_cache_host_hits, prefix_cache_disk_hits;  // tokens, by tier

  // chats that come with their history
  Counter turn_memory_hits, turn_memory_misses;  // of those that have earlier answers
  Counter turn_memory_tokens;
  Gauge turn_memory_bytes, turn_memory_parts;

  // actors
  Counter unexpected_messages, actor_failures;

  // stored responses
  Counter responses_stored, store_failures;
  Counter store_damages, responses_salvaged, responses_lost;
  Gauge store_read_only;  // 1: a sync has failed

  // http
  Gauge connections, sse_streams;
  Gauge detached_answers;
  Gauge sse_backlog;                     // bytes delivered to streams that their clients have not taken
  Counter http_2xx, http_4xx, http_5xx;  // http_responses_total{class}
  Counter client_disconnects, failed_handshakes, sse_events, sse_wakeups;

  // traces
  Counter trace_spans_exported;
  // trace_spans_dropped_total{reason}
  Counter trace_spans_dropped_queue_full, trace_spans_dropped_export_failed;
  Counter trace_spans_dropped_shutdown;

 private:
  struct Implementation;

  void define_requests();
  void define_unbound_calls();
  void define_latencies();
  void define_lengths();
  void define_iterations();
  void define_reservations();
  void define_forecasts();
  void define_forecast_stages();
  void define_pages();
  void define_turn_memory();
  void define_http();
  void define_the_rest();

  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
