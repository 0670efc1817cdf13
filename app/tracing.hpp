// SPDX-License-Identifier: Apache-2.0
// From options to a tracer, in two steps: what may be wrong is found in the first.
#pragma once

#include <memory>
#include <vector>

#include "app/options/options.hpp"
#include "telemetry/metrics/metrics.hpp"
#include "telemetry/tracing/span_exporter.hpp"
#include "telemetry/tracing/tracer.hpp"

namespace troupe {

// Where traces go: none, one or both of a file and an endpoint. Throws
// ConfigurationError if what is asked for can't be had.
std::vector<std::unique_ptr<SpanExporter>> make_exporters(const Options& options);

// Null without exporters.
std::unique_ptr<Tracer> make_tracer(const Options& options, Metrics& metrics,
                                    std::vector<std::unique_ptr<SpanExporter>> exporters);

}  // namespace troupe
