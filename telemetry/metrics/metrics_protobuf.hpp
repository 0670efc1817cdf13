// SPDX-License-Identifier: Apache-2.0
// Collected metrics as a stream of io.prometheus.client.MetricFamily messages
// (client_model's metrics.proto), each with its length in front.
#pragma once

#include <string>

#include "telemetry/metrics/collected_metrics.hpp"

namespace troupe {

// Histograms have their classic buckets, and those with a native form that too.
std::string protobuf_of(const CollectedMetrics& metrics);

}  // namespace troupe
