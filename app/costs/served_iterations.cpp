// SPDX-License-Identifier: Apache-2.0
#include "app/costs/served_iterations.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>

#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

double number_of(const TraceSpan& span, std::string_view key) { return span.number(std::string(key)); }

CostSample sample_of(const TraceSpan& span) {
  const auto count = [&](std::string_view key) {
    return static_cast<std::uint32_t>(std::llround(number_of(span, key)));
  };
  const auto sum = [&](std::string_view key) {
    return static_cast<std::uint64_t>(std::llround(number_of(span, key)));
  };
  return {.shape = {.num_tokens = count(semconv::kBatchTokens),
                    .num_sequences = count(semconv::kBatchSequences),
                    .num_output_rows = count(semconv::kBatchOutputRows),
                    .decode_keys = sum(semconv::kBatchDecodeKeys),
                    .prefill_pairs = sum(semconv::kBatchPrefillPairs)},
          .nanoseconds = number_of(span, semconv::kNetworkSeconds) * 1e9};
}

std::vector<CostSample> thinned(const std::vector<CostSample>& samples) {
  if (samples.size() <= kMostIterations) return samples;
  std::vector<CostSample> kept;
  for (std::size_t i = 0; i < kMostIterations; ++i)
    kept.push_back(samples[i * samples.size() / kMostIterations]);
  return kept;
}

bool has_shape(const TraceSpan& span) {
  return span.numbers.contains(std::string(semconv::kBatchDecodeKeys)) &&
         span.numbers.contains(std::string(semconv::kBatchPrefillPairs)) &&
         span.numbers.contains(std::string(semconv::kBatchCopies));
}

// Encoders attend to no keys; copies may be what a batch waited for.
bool is_usable(const TraceSpan& span, const CostSample& sample) {
  return sample.shape.num_tokens > 0 && sample.nanoseconds > 0 &&
         sample.shape.decode_keys + sample.shape.prefill_pairs > 0 &&
         number_of(span, semconv::kBatchCopies) == 0;
}

// Throws unless costs of all kinds can be told apart: a trace without prompts would make them free.
void require_both_kinds(const std::vector<CostSample>& samples) {
  const auto has = [&](auto is_of_kind) { return std::any_of(samples.begin(), samples.end(), is_of_kind); };
  const bool has_decodes = has([](const CostSample& sample) { return sample.shape.decode_keys > 0; });
  const bool has_prompts = has([](const CostSample& sample) { return sample.shape.prefill_pairs > 0; });
  if (!has_decodes || !has_prompts)
    throw std::runtime_error(std::string("iteration spans: expected decodes and prompts, got no ") +
                             (has_decodes ? "prompts" : "decodes"));
  const auto range = batch_sizes(samples);
  if (range.most < kFewestTokensRatio * range.fewest)
    throw std::runtime_error("iteration spans: expected batches that differ " +
                             std::to_string(kFewestTokensRatio) + " times in tokens, got " +
                             std::to_string(range.fewest) + " to " + std::to_string(range.most));
}

}  // namespace

BatchSizes batch_sizes(const std::vector<CostSample>& samples) {
  BatchSizes range{.fewest = samples.front().shape.num_tokens, .most = samples.front().shape.num_tokens};
  for (const CostSample& sample : samples) {
    range.fewest = std::min(range.fewest, sample.shape.num_tokens);
    range.most = std::max(range.most, sample.shape.num_tokens);
  }
  return range;
}

std::vector<CostSample> served_iterations(const TraceFile& trace) {
  std::vector<CostSample> samples;
  std::set<std::tuple<std::string, double, double>> sources;
  for (const TraceSpan& span : trace.spans) {
    if (span.name != semconv::kIteration || span.is_error) continue;
    if (!has_shape(span))
      throw std::runtime_error("iteration spans: expected " + std::string(semconv::kBatchDecodeKeys) + ", " +
                               std::string(semconv::kBatchPrefillPairs) + " and " +
                               std::string(semconv::kBatchCopies) +
                               " in each, as servers of this version write them");
    const CostSample sample = sample_of(span);
    if (!is_usable(span, sample)) continue;
    sources.insert({span.instance, number_of(span, semconv::kModelIndex), number_of(span, semconv::kWorker)});
    samples.push_back(sample);
  }
  if (sources.size() > 1)
    throw std::runtime_error("iteration spans: expected those of one server, model and worker, got " +
                             std::to_string(sources.size()) + " different ones");
  if (samples.size() < kFewestIterations)
    throw std::runtime_error("iteration spans: expected at least " + std::to_string(kFewestIterations) +
                             " without copies, got " + std::to_string(samples.size()));
  require_both_kinds(samples);
  return thinned(samples);
}

}  // namespace troupe
