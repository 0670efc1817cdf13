// SPDX-License-Identifier: Apache-2.0
// The way to a collector that this build has: the OpenTelemetry C++ SDK where it
// was found when this was built, our own sender otherwise.
#pragma once

#include <memory>
#include <string_view>

#include "telemetry/tracing/otlp_endpoint.hpp"
#include "telemetry/tracing/span_exporter.hpp"

namespace troupe {

// Throws std::runtime_error if this build can't reach such an endpoint: https
// needs the SDK.
std::unique_ptr<SpanExporter> make_otlp_exporter(OtlpEndpoint endpoint, const TraceSource& source);

// "OpenTelemetry SDK 1.19.0" or "built-in".
std::string_view otlp_exporter_name();

}  // namespace troupe
