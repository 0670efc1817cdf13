// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_exporter.hpp"

#include <stdexcept>
#include <utility>

#include "telemetry/tracing/otlp_http_exporter.hpp"

namespace troupe {

std::unique_ptr<SpanExporter> make_otlp_exporter(OtlpEndpoint endpoint, const TraceSource& source) {
  if (endpoint.is_https)
    throw std::runtime_error("this build sends traces over http only, got " + endpoint.url +
                             "; run a collector nearby, or build with the OpenTelemetry SDK "
                             "(scripts/serve --with-otel)");
  return std::make_unique<OtlpHttpExporter>(std::move(endpoint), source);
}

std::string_view otlp_exporter_name() { return "built-in"; }

}  // namespace troupe
