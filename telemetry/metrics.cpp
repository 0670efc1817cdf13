// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace troupe {
namespace {

using Labels = prometheus::Labels;
using Buckets = prometheus::Histogram::BucketBoundaries;

// Seconds, from a tenth of a millisecond to two minutes.
const Buckets kSeconds = {0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                          0.2,    0.3,    0.5,   0.75,  1,     2.5,  5,    10,   30,   60,  120};
const Buckets kTokens = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
const Buckets kSequences = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256};

}  // namespace

void Counter::add(double amount) const {
  static_cast<prometheus::Counter*>(implementation_)->Increment(amount);
}
void Gauge::set(double value) const { static_cast<prometheus::Gauge*>(implementation_)->Set(value); }
void Gauge::add(double amount) const {
  static_cast<prometheus::Gauge*>(implementation_)->Increment(amount);
}
void Histogram::observe(double value) const {
  static_cast<prometheus::Histogram*>(implementation_)->Observe(value);
}

struct Metrics::Implementation {
  prometheus::Registry registry;
  Labels model;

  Labels labels(Labels more) const {
    more.insert(model.begin(), model.end());
    return more;
  }
  Counter counter(const std::string& name, const std::string& help, const Labels& more = {}) {
    return Counter(&prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels(more)));
  }
  Gauge gauge(const std::string& name, const std::string& help, const Labels& more = {}) {
    return Gauge(&prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels(more)));
  }
  Histogram histogram(const std::string& name, const std::string& help, const Buckets& buckets) {
    return Histogram(
        &prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels({}), buckets));
  }
};

Metrics::Metrics(std::string_view model_name) : implementation_(std::make_unique<Implementation>()) {
  auto& make = *implementation_;
  make.model = {{"model_name", std::string(model_name)}};

  const std::string requests = "troupe_requests_total";
  const std::string requests_help = "Requests that ended, by reason.";
  requests_stop = make.counter(requests, requests_help, {{"finished_reason", "stop"}});
  requests_length = make.counter(requests, requests_help, {{"finished_reason", "length"}});
  requests_cancelled = make.counter(requests, requests_help, {{"finished_reason", "cancelled"}});
  requests_error = make.counter(requests, requests_help, {{"finished_reason", "error"}});
  requests_refused = make.counter("troupe_requests_refused_total",
                                  "Requests refused before they were queued: invalid, overload, draining.");
  prompt_tokens = make.counter("troupe_prompt_tokens_total", "Prompt tokens of admitted requests.");
  generation_tokens = make.counter("troupe_generation_tokens_total", "Tokens generated for clients.");
  cached_prompt_tokens =
      make.counter("troupe_cached_prompt_tokens_total", "Prompt tokens found in shared KV pages.");
  requests_running = make.gauge("troupe_num_requests_running", "Requests in the running set.");
  requests_waiting = make.gauge("troupe_num_requests_waiting", "Requests waiting for admission.");
  time_to_first_token = make.histogram("troupe_time_to_first_token_seconds",
                                       "Arrival to first generated token.", kSeconds);
  time_per_output_token = make.histogram("troupe_time_per_output_token_seconds",
                                         "Mean time per output token after the first.", kSeconds);
  inter_token_latency = make.histogram("troupe_inter_token_latency_seconds",
                                       "Gap between consecutive tokens of a request.", kSeconds);
  end_to_end_latency = make.histogram("troupe_e2e_request_latency_seconds",
                                      "Arrival to the last token.", kSeconds);
  queue_time = make.histogram("troupe_request_queue_time_seconds", "Arrival to admission.", kSeconds);
  prompt_length = make.histogram("troupe_request_prompt_tokens", "Prompt tokens a request.", kTokens);
  generation_length =
      make.histogram("troupe_request_generation_tokens", "Generated tokens a request.", kTokens);

  iterations = make.counter("troupe_iterations_total", "Batches run by the worker.");
  preemptions = make.counter("troupe_num_preemptions_total", "Running requests put back into the queue.");
  worker_restarts = make.counter("troupe_worker_restarts_total", "Workers replaced after a failure.");
  batch_tokens = make.histogram("troupe_iteration_tokens", "Query tokens a batch.", kTokens);
  batch_sequences = make.histogram("troupe_iteration_sequences", "Sequences a batch.", kSequences);
  iteration_time = make.histogram("troupe_iteration_seconds", "From one batch done to the next.", kSeconds);
  network_time = make.histogram("troupe_iteration_network_seconds",
                                "Time the device spent on a batch.", kSeconds);

  pages_total = make.gauge("troupe_kv_pages_total", "KV pages of the pool.");
  pages_free = make.gauge("troupe_kv_pages", "KV pages by state.", {{"state", "free"}});
  pages_cached = make.gauge("troupe_kv_pages", "KV pages by state.", {{"state", "cached"}});
  pages_running = make.gauge("troupe_kv_pages", "KV pages by state.", {{"state", "running"}});
  prefix_cache_queries =
      make.counter("troupe_prefix_cache_queries_total", "Prompt tokens looked up in the prefix index.");
  prefix_cache_hits =
      make.counter("troupe_prefix_cache_hits_total", "Prompt tokens found in the prefix index.");

  unexpected_messages =
      make.counter("troupe_unexpected_messages_total", "Messages that no actor handler expected.");
  actor_failures = make.counter("troupe_actor_failures_total", "Actors that died of an error.");

  connections = make.gauge("troupe_http_connections", "Open client connections.");
  sse_streams = make.gauge("troupe_http_sse_streams", "Open event streams.");
  const std::string responses = "troupe_http_responses_total";
  const std::string responses_help = "HTTP responses by status class.";
  http_2xx = make.counter(responses, responses_help, {{"class", "2xx"}});
  http_4xx = make.counter(responses, responses_help, {{"class", "4xx"}});
  http_5xx = make.counter(responses, responses_help, {{"class", "5xx"}});
  client_disconnects =
      make.counter("troupe_http_client_disconnects_total", "Clients gone before their answer ended.");
  sse_events = make.counter("troupe_http_sse_events_total", "Events written to streams.");
  sse_wakeups = make.counter("troupe_http_sse_wakeups_total",
                             "Times an I/O thread was woken to write events.");

  trace_spans_exported = make.counter("troupe_trace_spans_exported_total",
                                      "Spans that arrived in the trace file or at the collector.");
  const std::string dropped = "troupe_trace_spans_dropped_total";
  const std::string dropped_help = "Spans that were recorded and did not arrive, by reason.";
  trace_spans_dropped_queue_full = make.counter(dropped, dropped_help, {{"reason", "queue_full"}});
  trace_spans_dropped_export_failed =
      make.counter(dropped, dropped_help, {{"reason", "export_failed"}});
  trace_spans_dropped_shutdown = make.counter(dropped, dropped_help, {{"reason", "shutdown"}});
}

Metrics::~Metrics() = default;

std::string Metrics::expose() const {
  return prometheus::TextSerializer().Serialize(implementation_->registry.Collect());
}

}  // namespace troupe
