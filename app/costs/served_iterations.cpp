// SPDX-License-Identifier: Apache-2.0
#include "app/costs/served_iterations.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

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

}  // namespace

std::vector<CostSample> served_iterations(const TraceFile& trace) {
  std::vector<CostSample> samples;
  for (const TraceSpan& span : trace.spans) {
    if (span.name != semconv::kIteration || span.is_error) continue;
    const CostSample sample = sample_of(span);
    if (sample.shape.num_tokens == 0 || sample.nanoseconds <= 0) continue;
    if (sample.shape.decode_keys + sample.shape.prefill_pairs == 0)
      throw std::runtime_error("iteration spans: expected " + std::string(semconv::kBatchDecodeKeys) +
                               " or " + std::string(semconv::kBatchPrefillPairs) +
                               " in each, as servers of this version write them");
    samples.push_back(sample);
  }
  if (samples.size() < kFewestIterations)
    throw std::runtime_error("iteration spans: expected at least " + std::to_string(kFewestIterations) +
                             ", got " + std::to_string(samples.size()));
  return thinned(samples);
}

}  // namespace troupe
