// SPDX-License-Identifier: Apache-2.0
// From options to a tracer, in two steps: what may be wrong is found in the first.
#pragma once

#include <memory>
#include <vector>

#include "app/options/options.hpp"
#include "telemetry/metrics/metrics.hpp"
#include "telemetry/tracing/tracer.hpp"

namespace troupe {

struct PreparedTracing {
  TracerOptions options;
  std::vector<TraceDestination> destinations;  // none, one or both of a file and an endpoint
};
// Throws ConfigurationError if what is asked for, by options or variables, can't be had.
PreparedTracing prepare_tracing(const Options& options);

// Finds what keeps prepare_tracing() from it, and throws as that does; makes no file. False: no
// traces are asked for.
bool check_tracing(const Options& options);

// Null where spans go nowhere and none stay in memory.
std::unique_ptr<Tracer> make_tracer(PreparedTracing prepared, Metrics& metrics);

}  // namespace troupe
