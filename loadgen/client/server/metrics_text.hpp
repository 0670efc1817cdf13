// SPDX-License-Identifier: Apache-2.0
// Reads single figures out of the Prometheus text format, of troupe and of
// servers with vLLM's names.
#pragma once

#include <optional>
#include <string_view>

#include "loadgen/result/run_result.hpp"

namespace troupe::loadgen {

// The sum over all lines of that metric whose labels contain `label`, as in
// state="free" (empty: any). None if there is no such line.
std::optional<double> metric_sum(std::string_view text, std::string_view name, std::string_view label = {});

// Metrics of the server that a load run reads, as far as they are there. batch_tokens
// is the mean since the counters in `before`, which are brought up to date.
struct BatchCounters {
  double tokens = 0;
  double batches = 0;
};
ServerSample read_sample(std::string_view text, BatchCounters& before);

// False for a text that holds nothing that read_sample knows.
bool is_known_server(std::string_view text);

}  // namespace troupe::loadgen
