// SPDX-License-Identifier: Apache-2.0
// From options to a tracer.
#pragma once

#include <memory>

#include "app/options.hpp"
#include "telemetry/metrics.hpp"
#include "telemetry/tracer.hpp"

namespace troupe {

// Null if neither a file nor an endpoint is asked for. Throws std::runtime_error
// if what is asked for can't be had.
std::unique_ptr<Tracer> make_tracer(const Options& options, Metrics& metrics);

}  // namespace troupe
