// SPDX-License-Identifier: Apache-2.0
// The metrics that mean the same in vLLM, under its names, labels and buckets,
// so that dashboards and autoscalers made for it work here. Made from our own
// when they are read; nothing is recorded twice. docs/vllm-names.md says
// what is left out, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace prometheus {
struct MetricFamily;
}

namespace troupe {

struct VllmHistogram {
  std::string ours, theirs, help;
  std::vector<double> bounds;  // of its buckets
};

// The context length is where buckets of token counts end.
std::vector<VllmHistogram> vllm_histograms(std::uint32_t context_length);

// From our families: counters, gauges, and what follows from several.
std::vector<prometheus::MetricFamily> vllm_counters_and_gauges(
    const std::vector<prometheus::MetricFamily>& ours);

}  // namespace troupe
