// SPDX-License-Identifier: Apache-2.0
// Every metric the server exports, by name, in one place; prometheus-cpp keeps
// the numbers. Recording is lock-light and may be called from any thread.
// Names that dashboards for vLLM know keep vLLM's meaning under the prefix
// troupe_ (issue of names: docs/decisions/).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace troupe {

class Counter {
 public:
  explicit Counter(void* implementation = nullptr) : implementation_(implementation) {}
  void add(double amount = 1.0) const;

 private:
  void* implementation_;
};

class Gauge {
 public:
  explicit Gauge(void* implementation = nullptr) : implementation_(implementation) {}
  void set(double value) const;
  void add(double amount) const;

 private:
  void* implementation_;
};

class Histogram {
 public:
  explicit Histogram(void* implementation = nullptr) : implementation_(implementation) {}
  void observe(double value) const;

 private:
  void* implementation_;
};

class Metrics {
 public:
  explicit Metrics(std::string_view model_name);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The Prometheus text exposition format, version 0.0.4.
  std::string expose() const;

  // requests
  Counter requests_stop, requests_length, requests_cancelled, requests_error;  // requests_total{finished_reason}
  Counter requests_refused;        // overload, draining, invalid
  Counter prompt_tokens, generation_tokens, cached_prompt_tokens;
  Gauge requests_running, requests_waiting;
  Histogram time_to_first_token, time_per_output_token, inter_token_latency;  // seconds
  Histogram end_to_end_latency, queue_time;                                  // seconds
  Histogram prompt_length, generation_length;                                // tokens
  // iterations
  Counter iterations, preemptions, worker_restarts;
  Histogram batch_tokens, batch_sequences;
  Histogram iteration_time, network_time;  // seconds; their difference is the engine's
  // pages
  Gauge pages_total, pages_free, pages_cached, pages_running;
  Counter prefix_cache_queries, prefix_cache_hits;  // tokens
  // actors
  Counter unexpected_messages, actor_failures;
  // http
  Gauge connections, sse_streams;
  Counter http_2xx, http_4xx, http_5xx;  // http_responses_total{class}
  Counter client_disconnects, sse_events, sse_wakeups;
  // traces
  Counter trace_spans_exported;
  // trace_spans_dropped_total{reason}
  Counter trace_spans_dropped_queue_full, trace_spans_dropped_export_failed;
  Counter trace_spans_dropped_shutdown;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
