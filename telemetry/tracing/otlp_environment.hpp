// SPDX-License-Identifier: Apache-2.0
// OpenTelemetry's variables for an exporter of traces: each exists as
// OTEL_EXPORTER_OTLP_X for all signals and OTEL_EXPORTER_OTLP_TRACES_X, which comes
// first. An empty variable counts as absent. Values are refused with the variable's
// name and what was expected, as std::runtime_error; headers are secrets, so of
// those no value is in the text.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "telemetry/tracing/otlp_endpoint.hpp"
#include "telemetry/tracing/otlp_http_exporter.hpp"

namespace troupe {

// The value of a variable; empty: it is not there.
using VariableReader = std::function<std::string(const std::string& name)>;

// _ENDPOINT: the general one is where all signals go, /v1/traces is added to its
// path; that of traces is used as it is. nullopt: neither is there, OTEL_SDK_DISABLED
// is true, or OTEL_TRACES_EXPORTER is none.
std::optional<OtlpEndpoint> otlp_endpoint_of(const VariableReader& read);

// _PROTOCOL (http/protobuf, http/json) and _COMPRESSION (gzip, none), upper or lower
// case, _HEADERS (name=value,…, percent-encoded), _TIMEOUT (milliseconds, 0: none),
// _CERTIFICATE (a PEM file).
OtlpHttpOptions otlp_options_of(const VariableReader& read);

}  // namespace troupe
