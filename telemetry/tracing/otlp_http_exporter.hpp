// SPDX-License-Identifier: Apache-2.0
// Traces to a collector, as OTLP/HTTP with JSON bodies: our own sender, for
// builds without the OpenTelemetry SDK. By OTLP's rules 429, 502, 503, 504 and
// lost connections are tried again after a growing pause, everything else is not.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "telemetry/tracing/otlp_endpoint.hpp"
#include "telemetry/tracing/span_exporter.hpp"

namespace troupe {

struct OtlpHttpOptions {
  std::chrono::milliseconds attempt_timeout{5000};  // connect, send and read the answer
  std::chrono::milliseconds first_pause{250};       // doubled after each attempt
  int max_attempts = 4;                             // for a batch
};

class OtlpHttpExporter final : public SpanExporter {
 public:
  // endpoint: not https. Nothing is connected yet.
  OtlpHttpExporter(OtlpEndpoint endpoint, const TraceSource& source, OtlpHttpOptions options = {});
  ~OtlpHttpExporter() override;

  std::size_t send(const std::vector<SpanTree>& trees, const ExportDeadline& deadline) override;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
