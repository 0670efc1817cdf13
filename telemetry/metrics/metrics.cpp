// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/metrics/collected_metrics.hpp"
#include "telemetry/metrics/exponential_histogram.hpp"
#include "telemetry/metrics/metrics_protobuf.hpp"
#include "telemetry/metrics/process_metrics.hpp"
#include "telemetry/metrics/vllm_names.hpp"

namespace troupe {
namespace {

using prometheus::ClientMetric;
using prometheus::Labels;
using prometheus::MetricFamily;
using Bounds = std::vector<double>;

// How fine the exponential buckets are: 2^(1/16), or 4.4 % from one to the next.
constexpr int kSchema = 4;

// Small models give a token in less than a millisecond.
const Bounds kGaps = {.0001, .00025, .0005, .001, .0015, .002, .003, .004, .006, .008, .01, .015, .02, .03,
                      .04,   .05,    .075,  .1,   .15,   .2,   .3,   .5,   .75,  1,    2.5, 5,    10};
const Bounds kWaits = {.0001, .00025, .0005, .001, .0025, .005, .01, .02, .04, .06, .08, .1,
                       .25,   .5,     .75,   1,    2.5,   5,    7.5, 10,  20,  40,  80,  160};
const Bounds kLatencies = {.01, .025, .05, .1, .2, .3, .5, .8, 1,   1.5, 2,   2.5,
                           5,   10,   15,  20, 30, 40, 50, 60, 120, 240, 480, 960};
const Bounds kTokens = {1,   2,    4,    8,    16,   32,    64,    128,   256,
                        512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
const Bounds kSequences = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024};
const Bounds kChoices = {1, 2, 5, 10, 20};

constexpr const char* kTenantLabel = "tenant";

enum class Unit { kSeconds, kCount };

HistogramLayout::Settings layout_of(Unit unit, Bounds cuts) {
  const bool is_time = unit == Unit::kSeconds;  // a microsecond to four and a half hours
  return {.schema = kSchema,
          .min_exponent = is_time ? -20 : -1,
          .max_exponent = is_time ? 14 : 21,
          .cuts = std::move(cuts)};
}

std::vector<ClientMetric::Label> labels_as_list(const Labels& labels) {
  std::vector<ClientMetric::Label> list;
  for (const auto& [name, value] : labels) list.push_back({name, value});
  return list;
}

std::string written(const CollectedMetrics& metrics, ExpositionFormat format) {
  return format == ExpositionFormat::kProtobuf ? protobuf_of(metrics)
                                               : prometheus::TextSerializer().Serialize(metrics.families);
}

// Metrics of other tenants.
void leave_out_others(std::vector<MetricFamily>& families, const std::string& tenant) {
  const auto is_of_other = [&](const ClientMetric& metric) {
    return std::any_of(metric.label.begin(), metric.label.end(), [&](const ClientMetric::Label& label) {
      return label.name == kTenantLabel && label.value != tenant;
    });
  };
  for (MetricFamily& family : families) std::erase_if(family.metric, is_of_other);
  std::erase_if(families, [](const MetricFamily& family) { return family.metric.empty(); });
}

ClientMetric::Histogram classic(const HistogramCounts& counts, const Bounds& bounds) {
  ClientMetric::Histogram histogram;
  histogram.sample_count = counts.total();
  histogram.sample_sum = counts.sum();
  const auto cumulative = counts.cumulative(bounds);
  for (std::size_t i = 0; i < bounds.size(); ++i)
    histogram.bucket.push_back({.cumulative_count = cumulative[i], .upper_bound = bounds[i]});
  return histogram;
}

MetricFamily histogram_family(std::string name, std::string help, const Labels& labels,
                              ClientMetric::Histogram histogram) {
  ClientMetric metric;
  metric.label = labels_as_list(labels);
  metric.histogram = std::move(histogram);
  return {.name = std::move(name),
          .help = std::move(help),
          .type = prometheus::MetricType::Histogram,
          .metric = {std::move(metric)}};
}

}  // namespace

void Counter::add(double amount) const { counter_->Increment(amount); }
void Gauge::set(double value) const { gauge_->Set(value); }
void Gauge::add(double amount) const { gauge_->Increment(amount); }
void Histogram::observe(double value) const { histogram_->observe(value); }

struct Metrics::Implementation {
  struct NamedHistogram {
    std::string name, help;
    Bounds bounds;
    std::vector<VllmHistogram> twins;
    std::unique_ptr<ExponentialHistogram> counts;
  };

  prometheus::Registry registry;  // counters and gauges
  std::vector<NamedHistogram> histograms;
  Labels model;
  MetricsOptions options;

  Labels with_model(Labels labels) const {
    labels.insert(model.begin(), model.end());
    return labels;
  }

  Counter counter(const std::string& name, const std::string& help, const Labels& labels = {}) {
    auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(registry);
    return Counter(&family.Add(with_model(labels)));
  }
  Gauge gauge(const std::string& name, const std::string& help, const Labels& labels = {}) {
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(registry);
    return Gauge(&family.Add(with_model(labels)));
  }
  Histogram histogram(const std::string& name, const std::string& help, Unit unit, const Bounds& bounds);

  CollectedMetrics collect() const;
};

Histogram Metrics::Implementation::histogram(const std::string& name, const std::string& help, Unit unit,
                                             const Bounds& bounds) {
  NamedHistogram made{.name = name, .help = help, .bounds = bounds, .twins = {}, .counts = nullptr};
  Bounds cuts = bounds;
  if (options.vllm_names) {
    for (auto& twin : vllm_histograms(options.context_length)) {
      if (twin.ours != name) continue;
      cuts.insert(cuts.end(), twin.bounds.begin(), twin.bounds.end());
      made.twins.push_back(std::move(twin));
    }
  }
  made.counts = std::make_unique<ExponentialHistogram>(
      std::make_shared<const HistogramLayout>(layout_of(unit, std::move(cuts))));
  histograms.push_back(std::move(made));
  return Histogram(histograms.back().counts.get());
}

CollectedMetrics Metrics::Implementation::collect() const {
  CollectedMetrics all{.families = registry.Collect(), .native = {}};
  std::vector<MetricFamily> theirs;
  if (options.vllm_names) theirs = vllm_counters_and_gauges(all.families);
  Labels engine = model;
  engine.emplace("engine", "0");
  for (const auto& histogram : histograms) {
    const HistogramCounts counts = histogram.counts->counts();
    all.families.push_back(
        histogram_family(histogram.name, histogram.help, model, classic(counts, histogram.bounds)));
    all.native.emplace(histogram.name, counts.native());
    for (const auto& twin : histogram.twins)
      theirs.push_back(histogram_family(twin.theirs, twin.help, engine, classic(counts, twin.bounds)));
  }
  for (auto& family : theirs) all.families.push_back(std::move(family));
  for (auto& family : process_metrics()) all.families.push_back(std::move(family));
  return all;
}

Metrics::Metrics(std::string_view model_name, MetricsOptions options)
    : implementation_(std::make_unique<Implementation>()) {
  implementation_->model = {{"model_name", std::string(model_name)}};
  implementation_->options = std::move(options);
  define_requests();
  define_unbound_calls();
  define_latencies();
  define_lengths();
  define_iterations();
  define_reservations();
  have_workers(1);
  define_pages();
  define_turn_memory();
  define_http();
  define_the_rest();
}

Metrics::~Metrics() = default;

std::string Metrics::expose(ExpositionFormat format) const {
  return written(implementation_->collect(), format);
}

std::string Metrics::expose_to(const std::string& tenant, ExpositionFormat format) const {
  CollectedMetrics metrics = implementation_->collect();
  leave_out_others(metrics.families, tenant);
  return written(metrics, format);
}

void Metrics::define_requests() {
  const auto ended = [&](const std::string& reason) {
    return implementation_->counter("troupe_requests_total", "Requests that ran and ended, by reason.",
                                    {{"finished_reason", reason}});
  };
  requests_stop = ended("stop");
  requests_length = ended("length");
  requests_cancelled = ended("cancelled");
  requests_error = ended("error");

  const auto refused = [&](const std::string& reason) {
    return implementation_->counter("troupe_requests_refused_total",
                                    "Requests that ended before they ran: invalid, too_long, unauthorized "
                                    "(no known key, or a host or page that is "
                                    "not allowed), overload (too many waited), queue_time (waited too long), "
                                    "displaced (made room for a flow with "
                                    "fewer requests), tenant_limit (of the request's tenant), draining, "
                                    "unavailable (the engine has failed).",
                                    {{"reason", reason}});
  };
  refused_invalid = refused("invalid");
  refused_too_long = refused("too_long");
  refused_unauthorized = refused("unauthorized");
  refused_overload = refused("overload");
  refused_queue_time = refused("queue_time");
  refused_displaced = refused("displaced");
  refused_rate = refused("tenant_limit");
  refused_draining = refused("draining");
  refused_unavailable = refused("unavailable");

  auto& make = *implementation_;
  prompt_tokens =
      make.counter("troupe_prompt_tokens_total", "Prompt tokens of requests whose first token has come.");
  cached_prompt_tokens =
      make.counter("troupe_cached_prompt_tokens_total",
                   "Part of troupe_prompt_tokens_total that was found in shared KV pages.");
  computed_prompt_tokens = make.counter("troupe_computed_prompt_tokens_total",
                                        "Part of troupe_prompt_tokens_total that was computed.");
  generation_tokens = make.counter("troupe_generation_tokens_total", "Tokens generated for clients.");
  recomputed_tokens = make.counter("troupe_recomputed_tokens_total",
                                   "Tokens computed again after a preemption, a pause or a lost worker.");
  requests_running = make.gauge("troupe_num_requests_running", "Requests that have pages and a slot.");
  requests_waiting = make.gauge("troupe_num_requests_waiting", "Requests waiting for pages or a slot.");
  flows_waiting = make.gauge("troupe_num_flows_waiting",
                             "Flows (tenants, or networks of clients without keys) with requests waiting.");
  requests_paused =
      make.gauge("troupe_num_requests_paused", "Requests whose clients don't read their answers.");
  ready = make.gauge("troupe_ready", "1 if /ready says yes, as of this answer.");
}

void Metrics::define_latencies() {
  const auto seconds = [&](const std::string& name, const std::string& help, const Bounds& bounds) {
    return implementation_->histogram(name, help, Unit::kSeconds, bounds);
  };
  time_to_first_token =
      seconds("troupe_time_to_first_token_seconds", "Arrival to first generated token.", kWaits);
  inter_token_latency = seconds("troupe_inter_token_latency_seconds",
                                "Gap between consecutive tokens of a request, each one counted.", kGaps);
  time_per_output_token = seconds("troupe_time_per_output_token_seconds",
                                  "Mean gap between the tokens of a finished request.", kGaps);
  normalized_latency = seconds("troupe_normalized_latency_seconds",
                               "Arrival to last token, divided by the number of output tokens.", kGaps);
  end_to_end_latency = seconds("troupe_e2e_request_latency_seconds", "Arrival to last token.", kLatencies);
  queue_time =
      seconds("troupe_request_queue_time_seconds", "Arrival at the scheduler to the first turn.", kWaits);
  prefill_time = seconds("troupe_request_prefill_time_seconds", "First turn to first token.", kWaits);
  decode_time = seconds("troupe_request_decode_time_seconds", "First token to last token.", kLatencies);
  inference_time = seconds("troupe_request_inference_time_seconds", "First turn to last token.", kLatencies);
  embedding_time =
      seconds("troupe_embedding_request_latency_seconds",
              "Arrival to answer of a request for embeddings, classes, scores or ranks.", kLatencies);
}

void Metrics::define_lengths() {
  const auto tokens = [&](const std::string& name, const std::string& help, const Bounds& bounds) {
    return implementation_->histogram(name, help, Unit::kCount, bounds);
  };
  prompt_length = tokens("troupe_request_prompt_tokens", "Prompt tokens of a finished request.", kTokens);
  generation_length =
      tokens("troupe_request_generation_tokens", "Generated tokens of a finished request.", kTokens);
  asked_max_tokens = tokens("troupe_request_params_max_tokens",
                            "The parameter max_tokens of a finished request, if given.", kTokens);
  asked_choices = tokens("troupe_request_params_n", "The parameter n of a finished request.", kChoices);
}

void Metrics::define_iterations() {
  auto& make = *implementation_;
  iterations = make.counter("troupe_iterations_total", "Batches run by the worker.");
  preemptions = make.counter("troupe_num_preemptions_total", "Running requests put back into the queue.");
  worker_restarts = make.counter("troupe_worker_restarts_total", "Workers replaced after a failure.");
  const auto in_batches = [&](const std::string& phase) {
    return make.counter("troupe_batch_tokens_total",
                        "Tokens computed in batches: prefill, or decode (steps of one token).",
                        {{"phase", phase}});
  };
  prefill_tokens = in_batches("prefill");
  decode_tokens = in_batches("decode");
  batch_tokens =
      make.histogram("troupe_iteration_tokens", "Tokens computed in a batch.", Unit::kCount, kTokens);
  batch_sequences =
      make.histogram("troupe_iteration_sequences", "Sequences in a batch.", Unit::kCount, kSequences);
  iteration_time =
      make.histogram("troupe_iteration_seconds", "From one batch done to the next.", Unit::kSeconds, kGaps);
  network_time = make.histogram("troupe_iteration_network_seconds", "Time the device spent on a batch.",
                                Unit::kSeconds, kGaps);
  batches_in_flight = make.gauge("troupe_batches_in_flight", "Batches submitted and not done.");
}

void Metrics::define_reservations() {
  auto& make = *implementation_;
  lengths_forecast = make.counter("troupe_lengths_forecast_total", "Answers whose length was predicted.");
  reservations_refined = make.counter("troupe_reservations_refined_total",
                                      "Times that more was set aside for an answer by the model's state, at "
                                      "the end of its prefill or later.");
  reservations_shrunk = make.counter("troupe_reservations_shrunk_total",
                                     "So, too, that less was set aside for an answer that ran.");
  const auto overruns = [&](const std::string& outcome) {
    return make.counter("troupe_reservation_overruns_total",
                        "Answers that neared the end of what was reserved for them, by what came of it: "
                        "grown in place, or preempted.",
                        {{"outcome", outcome}});
  };
  reservations_grown = overruns("grown");
  reservations_given_up = overruns("preempted");
  forecast_time = make.counter("troupe_length_forecast_busy_seconds_total",
                               "Time that foreseeing and learning lengths took, beside everything else.");
  define_forecasts();
  define_forecast_stages();
}

// All over the last answers that were predicted.
void Metrics::define_forecasts() {
  auto& make = *implementation_;
  forecast_quantile = make.gauge("troupe_length_forecast_quantile",
                                 "Share of answers that is to fit what is predicted for it, as the costs of "
                                 "too little and too much say, or as it is set.");
  forecast_coverage = make.gauge("troupe_length_forecast_coverage_ratio",
                                 "Share of the last 500 predicted answers that fitted; to be compared with "
                                 "troupe_length_forecast_quantile.");
  for (std::size_t tenth = 0; tenth < forecast_tenths.size(); ++tenth)
    forecast_tenths[tenth] = make.gauge(
        "troupe_length_forecast_tenth_coverage_ratio",
        "As troupe_length_forecast_coverage_ratio, of each tenth of these answers, by their guesses.",
        {{"tenth", std::to_string(tenth + 1)}});
  forecast_log_error =
      make.gauge("troupe_length_forecast_log_error",
                 "Mean distance of the logarithms of likely and real lengths over the last 500 answers.");
  states_learnt =
      make.gauge("troupe_length_forecast_states",
                 "Answers from which a head on the model's own state has learnt, now and earlier.");
  vectors_learnt =
      make.gauge("troupe_length_forecast_vectors",
                 "Answers from which a head on an encoder's vectors of prompts that waited has learnt, now "
                 "and earlier.");
  const auto prompts_read = [&](const std::string& outcome) {
    return make.counter(
        "troupe_length_readings_total",
        "Times that the encoder of --length-encoder was wanted for a prompt that waited: it was "
        "read, skipped (as many as may be were under way, or its request ended) or failed.",
        {{"outcome", outcome}});
  };
  prompts_read_done = prompts_read("read");
  prompts_read_skipped = prompts_read("skipped");
  prompts_read_failed = prompts_read("failed");
  looks_learnt = make.gauge("troupe_length_forecast_looks",
                            "Looks at answers that ran from which a head has learnt, now and earlier.");
  looks_coverage = make.gauge("troupe_length_forecast_look_coverage_ratio",
                              "Share of the looks at the last 500 answers whose guess was enough.");
  const auto loss = [&](const std::string& guess) {
    return make.gauge("troupe_length_forecast_look_loss_tokens",
                      "Mean pinball loss at these looks: of their guess, and of what would be set aside "
                      "without them. They are used while theirs is less.",
                      {{"guess", guess}});
  };
  looks_loss = loss("look");
  looks_standing_loss = loss("standing");
}

void Metrics::define_forecast_stages() {
  auto& make = *implementation_;
  const auto loss = [&](const std::string& stage) {
    return make.gauge("troupe_length_forecast_loss_tokens",
                      "Mean pinball loss of a stage's guesses, over those of the last 500 answers that show "
                      "each stage's; the stage with the least is used. constant: of the best constant, known "
                      "afterwards.",
                      {{"stage", stage}});
  };
  forecast_loss_constant = loss("constant");
  const std::array<std::string, 5> names = {"everyone", "tenant", "beginning", "encoder", "state"};
  for (std::size_t i = 0; i < names.size(); ++i)
    forecast_stages[i] = {
        .loss = loss(names[i]),
        .log_error = make.gauge("troupe_length_forecast_stage_log_error",
                                "As troupe_length_forecast_log_error, of each stage, used or not.",
                                {{"stage", names[i]}}),
        .tau = make.gauge("troupe_length_forecast_tau",
                          "Kendall's tau of a stage's guesses over the last 500 answers: 1 where they are in "
                          "the order of the lengths, 0 where they tell nothing.",
                          {{"stage", names[i]}})};
}

void Metrics::have_workers(std::uint32_t num_workers) {
  auto& make = *implementation_;
  for (auto id = static_cast<std::uint32_t>(workers.size()); id < num_workers; ++id) {
    const Labels worker = {{"worker", std::to_string(id)}};
    const auto pages = [&](const std::string& state) {
      return make.gauge("troupe_by_worker_kv_pages",
                        "KV pages on a worker's device, by state; all 0 while it is down.",
                        {{"state", state}, {"worker", std::to_string(id)}});
    };
    workers.push_back(
        {.up = make.gauge("troupe_by_worker_up", "1: the worker has a device that works.", worker),
         .requests_running =
             make.gauge("troupe_by_worker_requests_running", "Requests that a worker runs.", worker),
         .batches_in_flight = make.gauge("troupe_by_worker_batches_in_flight",
                                         "Batches submitted to a worker and not done.", worker),
         .pages_free = pages("free"),
         .pages_cached = pages("cached"),
         .pages_running = pages("running"),
         .iterations = make.counter("troupe_by_worker_iterations_total", "Batches run by a worker.", worker),
         .restarts = make.counter("troupe_by_worker_restarts_total",
                                  "How often a worker was replaced after a failure.", worker)});
  }
}

TenantMetrics Metrics::of_tenant(const std::string& name) {
  auto& make = *implementation_;
  const Labels tenant = {{kTenantLabel, name}};
  const auto refused = [&](const std::string& limit) {
    return make.counter("troupe_by_tenant_refused_total",
                        "Requests of a tenant that were refused by a limit of its own.",
                        {{"limit", limit}, {kTenantLabel, name}});
  };
  return {
      .requests = make.gauge("troupe_by_tenant_requests", "Requests of a tenant that are under way.", tenant),
      .tokens_in_flight = make.gauge("troupe_by_tenant_tokens_in_flight",
                                     "Tokens of a tenant's requests under way: prompts, and the most that "
                                     "answers may have.",
                                     tenant),
      .tokens =
          make.counter("troupe_by_tenant_tokens_total", "Tokens of a tenant's prompts and answers.", tenant),
      .refused_requests = refused("requests"),
      .refused_tokens = refused("tokens"),
      .refused_rate = refused("tokens_per_minute")};
}

void Metrics::define_pages() {
  auto& make = *implementation_;
  const auto capacity = [&](const std::string& tier) {
    return make.gauge("troupe_kv_pages_capacity", "KV pages that a tier has room for.", {{"tier", tier}});
  };
  pages_capacity = capacity("device");
  host_pages_capacity = capacity("host");
  disk_pages_capacity = capacity("disk");
  page_tokens = make.gauge("troupe_kv_page_tokens", "Tokens that fit into a KV page.");
  const auto pages = [&](const std::string& state, const std::string& tier) {
    return make.gauge("troupe_kv_pages",
                      "KV pages: running (held by requests), cached (kept for the next request with the same "
                      "beginning), free.",
                      {{"state", state}, {"tier", tier}});
  };
  pages_free = pages("free", "device");
  pages_cached = pages("cached", "device");
  pages_running = pages("running", "device");
  host_pages_free = pages("free", "host");
  host_pages_cached = pages("cached", "host");
  disk_pages_free = pages("free", "disk");
  disk_pages_cached = pages("cached", "disk");
  const auto evicted = [&](const std::string& tier, const std::string& to) {
    return make.counter("troupe_kv_pages_evicted_total",
                        "KV pages given up for their space, by where their contents still are.",
                        {{"tier", tier}, {"to", to}});
  };
  pages_kept_on_host = evicted("device", "host");
  pages_dropped = evicted("device", "nowhere");
  host_pages_kept_on_disk = evicted("host", "disk");
  host_pages_dropped = evicted("host", "nowhere");
  disk_pages_dropped = evicted("disk", "nowhere");
  const auto ended = [&](const std::string& reason) {
    return make.counter("troupe_kv_pages_ended_total",
                        "KV pages dropped from all tiers: their conversation was closed, or has expired.",
                        {{"reason", reason}});
  };
  pages_forgotten = ended("closed");
  pages_expired = ended("expired");
  pages_stored = make.counter("troupe_kv_pages_stored_total", "KV pages copied to the host.");
  pages_loaded = make.counter("troupe_kv_pages_loaded_total", "KV pages copied from the host.");
  pages_written = make.counter("troupe_kv_pages_written_total", "KV pages written to the disk.");
  pages_read = make.counter("troupe_kv_pages_read_total", "KV pages read from the disk.");
  disk_writes_failed = make.counter("troupe_kv_page_writes_failed_total",
                                    "KV pages that the disk did not take: it is full, or broken.");
  const auto not_intact = [&](const std::string& tier) {
    return make.counter("troupe_kv_pages_not_intact_total",
                        "KV pages that failed their check and were computed again.", {{"tier", tier}});
  };
  pages_not_intact = not_intact("host");
  disk_pages_not_intact = not_intact("disk");
  prefix_cache_queries = make.counter("troupe_prefix_cache_queries_total",
                                      "Tokens looked up in the prefix index, at every turn given.");
  const auto hits = [&](const std::string& tier) {
    return make.counter("troupe_prefix_cache_hits_total", "Tokens found in the prefix index.",
                        {{"tier", tier}});
  };
  prefix_cache_hits = hits("device");
  prefix_cache_host_hits = hits("host");
  prefix_cache_disk_hits = hits("disk");
}

void Metrics::define_unbound_calls() {
  const auto unbound = [&](const std::string& reason) {
    return implementation_->counter(
        "troupe_calls_unbound_total",
        "Answers whose calls of tools were to be bound to their schemas and were not, or not to their end: "
        "place (as many were as may be at once, in all or of one tenant), schema (no grammar of the calls "
        "can be followed, not even of any arguments), mask (from a place on where a mask would have taken "
        "too long), earlier (an earlier process had not bound it).",
        {{"reason", reason}});
  };
  unbound_place = unbound("place");
  unbound_schema = unbound("schema");
  unbound_mask = unbound("mask");
  unbound_earlier = unbound("earlier");
}

void Metrics::define_turn_memory() {
  auto& make = *implementation_;
  turn_memory_hits =
      make.counter("troupe_turn_memory_hits_total",
                   "Chats sent with their history of which a beginning had the tokens it was run with.");
  turn_memory_misses = make.counter("troupe_turn_memory_misses_total",
                                    "Chats sent with earlier answers of which no beginning was remembered.");
  turn_memory_tokens = make.counter("troupe_turn_memory_tokens_total",
                                    "Prompt tokens taken from the memory of turns, not encoded.");
  turn_memory_bytes = make.gauge("troupe_turn_memory_bytes", "Bytes that the memory of turns holds.");
  turn_memory_parts =
      make.gauge("troupe_turn_memory_parts", "Parts of chats, questions or answers, that it holds.");
}

void Metrics::define_http() {
  auto& make = *implementation_;
  connections = make.gauge("troupe_http_connections", "Open client connections.");
  sse_streams = make.gauge("troupe_http_sse_streams", "Open event streams.");
  detached_answers = make.gauge("troupe_http_detached_answers",
                                "Answers that are kept for clients to come back to, running or ended.");
  sse_backlog = make.gauge("troupe_http_sse_backlog_bytes",
                           "Bytes for event streams that their clients have not taken.");
  const auto responses = [&](const std::string& status) {
    return make.counter("troupe_http_responses_total",
                        "HTTP responses by status class. A stream counts when it begins.",
                        {{"class", status}});
  };
  http_2xx = responses("2xx");
  http_4xx = responses("4xx");
  http_5xx = responses("5xx");
  client_disconnects =
      make.counter("troupe_http_client_disconnects_total", "Clients gone before their answer ended.");
  failed_handshakes = make.counter("troupe_http_tls_failures_total",
                                   "TLS handshakes that failed: other protocols, versions, trust.");
  sse_events = make.counter("troupe_http_sse_events_total", "Events written to streams.");
  sse_wakeups =
      make.counter("troupe_http_sse_wakeups_total", "Times an I/O thread was woken to write events.");
}

void Metrics::define_the_rest() {
  auto& make = *implementation_;
  make.gauge("troupe_build_info", "Always 1; the version is in the label.",
             {{"version", make.options.version}})
      .set(1);
  unexpected_messages =
      make.counter("troupe_unexpected_messages_total", "Messages that no actor handler expected.");
  actor_failures = make.counter("troupe_actor_failures_total", "Actors that died of an error.");

  vector_cache_queries = make.counter("troupe_embedding_cache_queries_total",
                                      "Inputs that were looked up among the vectors that are kept.");
  vector_cache_hits = make.counter("troupe_embedding_cache_hits_total",
                                   "Inputs that were answered by a vector that was kept.");
  vector_cache_bytes = make.gauge("troupe_embedding_cache_bytes", "Memory of vectors that are kept.");
  embedding_requests = make.counter("troupe_embedding_requests_total",
                                    "Requests for embeddings, classes, scores and ranks answered.");
  encoder_batches = make.counter("troupe_encoder_batches_total", "Batches of models that encode.");
  encoder_inputs = make.counter("troupe_encoder_inputs_total", "Inputs in batches of models that encode.");
  encoder_tokens = make.counter("troupe_encoder_tokens_total",
                                "Tokens in batches of models that encode, padding included.");

  responses_stored = make.counter("troupe_responses_stored_total", "Responses kept to be continued.");
  store_failures = make.counter("troupe_store_failures_total", "Operations on stored responses that failed.");
  store_damages = make.counter("troupe_store_damages_total",
                               "Times that the file of stored responses was damaged and begun anew.");
  responses_salvaged =
      make.counter("troupe_store_responses_salvaged_total", "Stored responses read from a damaged file.");
  responses_lost = make.counter("troupe_store_responses_lost_total",
                                "Stored responses known to have been in a damaged file and not readable.");
  store_read_only =
      make.gauge("troupe_store_read_only",
                 "1: the disk failed to sync a stored response; none are taken until the server "
                 "is started anew.");

  trace_spans_exported = make.counter("troupe_trace_spans_exported_total",
                                      "Spans that arrived in the trace file or at the collector.");
  const auto dropped = [&](const std::string& reason) {
    return make.counter("troupe_trace_spans_dropped_total",
                        "Spans that were recorded and did not arrive, by reason.", {{"reason", reason}});
  };
  trace_spans_dropped_queue_full = dropped("queue_full");
  trace_spans_dropped_export_failed = dropped("export_failed");
  trace_spans_dropped_shutdown = dropped("shutdown");
}

}  // namespace troupe
