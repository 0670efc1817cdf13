// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/metrics_text.hpp"

#include <charconv>
#include <initializer_list>

namespace troupe::loadgen {
namespace {

// A line "name{labels} value [timestamp]"; what is behind the name.
std::optional<double> value_of(std::string_view rest, std::string_view label) {
  std::string_view labels;
  if (rest.starts_with('{')) {
    const auto end = rest.rfind('}');
    if (end == std::string_view::npos) return std::nullopt;
    labels = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  }
  if (labels.find(label) == std::string_view::npos || !rest.starts_with(' ')) return std::nullopt;
  rest.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// The first of the names that is there.
double first_of(std::string_view text, std::initializer_list<std::string_view> names) {
  for (const auto name : names)
    if (const auto sum = metric_sum(text, name)) return *sum;
  return 0;
}

}  // namespace

std::optional<double> metric_sum(std::string_view text, std::string_view name, std::string_view label) {
  std::optional<double> sum;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(name)) continue;
    const auto rest = line.substr(name.size());
    if (!rest.starts_with('{') && !rest.starts_with(' ')) continue;  // a longer name
    if (const auto value = value_of(rest, label)) sum = sum.value_or(0) + *value;
  }
  return sum;
}

ServerSample read_sample(std::string_view text, BatchCounters& before) {
  ServerSample sample;
  sample.num_running = first_of(text, {"troupe_num_requests_running", "vllm:num_requests_running"});
  sample.num_waiting = first_of(text, {"troupe_num_requests_waiting", "vllm:num_requests_waiting"});
  sample.generation_tokens =
      first_of(text, {"troupe_generation_tokens_total", "vllm:generation_tokens_total"});
  if (const auto total = metric_sum(text, "troupe_kv_pages_capacity", "tier=\"device\"")) {
    const auto free = metric_sum(text, "troupe_kv_pages", "state=\"free\",tier=\"device\"");
    sample.pages_total = *total;
    sample.pages_used = *total - free.value_or(0);
  } else if (const auto share = metric_sum(text, "vllm:kv_cache_usage_perc")) {
    sample.pages_total = 1;  // vLLM says only the share
    sample.pages_used = *share;
  }
  const BatchCounters now{
      .tokens = first_of(text, {"troupe_iteration_tokens_sum", "vllm:iteration_tokens_total_sum"}),
      .batches = first_of(text, {"troupe_iteration_tokens_count", "vllm:iteration_tokens_total_count"})};
  if (now.batches > before.batches)
    sample.batch_tokens = (now.tokens - before.tokens) / (now.batches - before.batches);
  before = now;
  return sample;
}

bool is_known_server(std::string_view text) {
  return metric_sum(text, "troupe_num_requests_running") || metric_sum(text, "vllm:num_requests_running");
}

}  // namespace troupe::loadgen
