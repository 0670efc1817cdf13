// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics/vllm_names.hpp"

#include <prometheus/metric_family.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace troupe {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr std::uint32_t kLongestContext = 2'000'000;

struct SameMeaning {
  std::string_view ours, theirs, help;
};

constexpr std::array kSame = {
    SameMeaning{"troupe_num_requests_running", "vllm:num_requests_running",
                "Number of requests in model execution batches."},
    SameMeaning{"troupe_num_requests_waiting", "vllm:num_requests_waiting",
                "Number of requests waiting to be processed."},
    SameMeaning{"troupe_num_preemptions_total", "vllm:num_preemptions_total",
                "Cumulative number of preemption from the engine."},
    SameMeaning{"troupe_prompt_tokens_total", "vllm:prompt_tokens_total",
                "Number of prefill tokens processed."},
    SameMeaning{"troupe_cached_prompt_tokens_total", "vllm:prompt_tokens_cached_total",
                "Number of cached prompt tokens."},
    SameMeaning{"troupe_generation_tokens_total", "vllm:generation_tokens_total",
                "Number of generation tokens processed."},
    SameMeaning{"troupe_prefix_cache_queries_total", "vllm:prefix_cache_queries_total",
                "Prefix cache queries, in terms of number of queried tokens."},
    SameMeaning{"troupe_prefix_cache_hits_total", "vllm:prefix_cache_hits_total",
                "Prefix cache hits, in terms of number of cached tokens."},
    SameMeaning{"troupe_requests_total", "vllm:request_success_total",
                "Count of successfully processed requests."},
};

const MetricFamily* find(const std::vector<MetricFamily>& families, std::string_view name) {
  const auto found = std::find_if(families.begin(), families.end(),
                                  [&](const MetricFamily& family) { return family.name == name; });
  return found == families.end() ? nullptr : &*found;
}

std::string_view label_of(const ClientMetric& metric, std::string_view name) {
  for (const auto& label : metric.label)
    if (label.name == name) return label.value;
  return {};
}

// What vLLM counts is on the device; our other tiers have no name there.
bool is_on_device(const ClientMetric& metric) {
  const std::string_view tier = label_of(metric, "tier");
  return tier.empty() || tier == "device";
}

// vLLM's labels: the model, the engine (we are one), and why a request ended.
Labels vllm_labels(const ClientMetric& ours) {
  Labels labels = {{"engine", "0"}};
  for (const auto& label : ours.label) {
    if (label.name == "model_name") labels.push_back(label);
    if (label.name == "finished_reason")
      labels.push_back({label.name, label.value == "cancelled" ? "abort" : label.value});
  }
  return labels;
}

double value_of(const MetricFamily& family, const ClientMetric& metric) {
  return family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value;
}

// With a state or a source where several are told apart; 0 if there is none.
double value_in(const std::vector<MetricFamily>& families, std::string_view name,
                std::string_view state = {}) {
  const MetricFamily* family = find(families, name);
  if (family == nullptr) return 0;
  for (const auto& metric : family->metric)
    if (label_of(metric, "state") == state && is_on_device(metric)) return value_of(*family, metric);
  return 0;
}

ClientMetric with(Labels labels, MetricType type, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return metric;
}

// Pages that sequences hold, of all: cached ones are free for whoever needs them.
std::vector<MetricFamily> cache_usage(const std::vector<MetricFamily>& ours, const Labels& labels) {
  const double capacity = value_in(ours, "troupe_kv_pages_capacity");
  const double usage = capacity > 0 ? value_in(ours, "troupe_kv_pages", "running") / capacity : 0;
  const auto gauge = [&](std::string name, std::string help) {
    return MetricFamily{.name = std::move(name),
                        .help = std::move(help),
                        .type = MetricType::Gauge,
                        .metric = {with(labels, MetricType::Gauge, usage)}};
  };
  return {gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."),
          gauge("vllm:gpu_cache_usage_perc",
                "KV-cache usage. DEPRECATED: Use vllm:kv_cache_usage_perc instead.")};
}

MetricFamily prompt_tokens_by_source(const std::vector<MetricFamily>& ours, const Labels& labels) {
  MetricFamily family{.name = "vllm:prompt_tokens_by_source_total",
                      .help = "Number of prompt tokens by source.",
                      .type = MetricType::Counter,
                      .metric = {}};
  const auto add = [&](std::string source, std::string_view name) {
    Labels all = labels;
    all.push_back({"source", std::move(source)});
    family.metric.push_back(with(std::move(all), MetricType::Counter, value_in(ours, name)));
  };
  add("local_compute", "troupe_computed_prompt_tokens_total");
  add("local_cache_hit", "troupe_cached_prompt_tokens_total");
  return family;
}

MetricFamily cache_config(const std::vector<MetricFamily>& ours) {
  const auto number = [&](std::string_view name) {
    return std::to_string(static_cast<std::uint64_t>(value_in(ours, name)));
  };
  const Labels labels = {{"engine", "0"},
                         {"block_size", number("troupe_kv_page_tokens")},
                         {"num_gpu_blocks", number("troupe_kv_pages_capacity")}};
  return {.name = "vllm:cache_config_info",
          .help = "Information of the LLMEngine CacheConfig",
          .type = MetricType::Gauge,
          .metric = {with(labels, MetricType::Gauge, 1)}};
}

// 1, 2, 5, 10, 20 … as far as the limit.
std::vector<double> one_two_five(std::uint32_t limit) {
  std::vector<double> bounds;
  for (double decade = 1;; decade *= 10) {
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      if (mantissa * decade > limit) return bounds;
      bounds.push_back(mantissa * decade);
    }
  }
}

}  // namespace

std::vector<VllmHistogram> vllm_histograms(std::uint32_t context_length) {
  const std::vector<double> first_token = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                           1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
  const std::vector<double> gap = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                   .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
  const std::vector<double> latency = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                       30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
  const std::vector<double> batch = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  const std::vector<double> tokens = one_two_five(std::min(context_length, kLongestContext));
  return {
      {"troupe_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
       "Histogram of time to first token in seconds.", first_token},
      {"troupe_inter_token_latency_seconds", "vllm:inter_token_latency_seconds",
       "Histogram of inter-token latency in seconds.", gap},
      {"troupe_inter_token_latency_seconds", "vllm:time_per_output_token_seconds",
       "Histogram of time per output token in seconds. DEPRECATED: Use "
       "vllm:inter_token_latency_seconds instead.",
       gap},
      {"troupe_time_per_output_token_seconds", "vllm:request_time_per_output_token_seconds",
       "Histogram of time_per_output_token_seconds per request.", gap},
      {"troupe_e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds",
       "Histogram of e2e request latency in seconds.", latency},
      {"troupe_request_queue_time_seconds", "vllm:request_queue_time_seconds",
       "Histogram of time spent in WAITING phase for request.", latency},
      {"troupe_request_prefill_time_seconds", "vllm:request_prefill_time_seconds",
       "Histogram of time spent in PREFILL phase for request.", latency},
      {"troupe_request_decode_time_seconds", "vllm:request_decode_time_seconds",
       "Histogram of time spent in DECODE phase for request.", latency},
      {"troupe_request_inference_time_seconds", "vllm:request_inference_time_seconds",
       "Histogram of time spent in RUNNING phase for request.", latency},
      {"troupe_request_prompt_tokens", "vllm:request_prompt_tokens", "Number of prefill tokens processed.",
       tokens},
      {"troupe_request_generation_tokens", "vllm:request_generation_tokens",
       "Number of generation tokens processed.", tokens},
      {"troupe_request_generation_tokens", "vllm:request_max_num_generation_tokens",
       "Histogram of maximum number of requested generation tokens.", tokens},
      {"troupe_request_params_max_tokens", "vllm:request_params_max_tokens",
       "Histogram of the max_tokens request parameter.", tokens},
      {"troupe_request_params_n",
       "vllm:request_params_n",
       "Histogram of the n request parameter.",
       {1, 2, 5, 10, 20}},
      {"troupe_iteration_tokens", "vllm:iteration_tokens_total",
       "Histogram of number of tokens per engine_step.", batch},
  };
}

std::vector<MetricFamily> vllm_counters_and_gauges(const std::vector<MetricFamily>& ours) {
  std::vector<MetricFamily> families;
  Labels labels;  // of what there is one of
  for (const SameMeaning& same : kSame) {
    const MetricFamily* family = find(ours, same.ours);
    if (family == nullptr) continue;
    MetricFamily twin{
        .name = std::string(same.theirs), .help = std::string(same.help), .type = family->type, .metric = {}};
    for (const auto& metric : family->metric) {
      if (!is_on_device(metric)) continue;
      twin.metric.push_back(with(vllm_labels(metric), family->type, value_of(*family, metric)));
    }
    if (labels.empty() && !twin.metric.empty()) labels = twin.metric.front().label;
    families.push_back(std::move(twin));
  }
  for (auto& family : cache_usage(ours, labels)) families.push_back(std::move(family));
  families.push_back(prompt_tokens_by_source(ours, labels));
  families.push_back(cache_config(ours));
  return families;
}

}  // namespace troupe
