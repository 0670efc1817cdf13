// SPDX-License-Identifier: Apache-2.0
// Traces to a collector, as OTLP over HTTP or HTTPS. By OTLP's rules 429, 502, 503,
// 504 and lost connections are tried again after a growing pause, everything else
// is not.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "telemetry/http/http_client.hpp"
#include "telemetry/tracing/otlp_endpoint.hpp"
#include "telemetry/tracing/span_exporter.hpp"

namespace troupe {

enum class OtlpFormat : std::uint8_t { kProtobuf, kJson };

struct OtlpHttpOptions {
  OtlpFormat format = OtlpFormat::kProtobuf;
  bool is_gzipped = false;
  std::vector<HttpHeader> headers = {};              // in addition to the format's
  std::string trusted_certificates = {};             // a PEM file; empty: the system's
  std::chrono::milliseconds attempt_timeout{10000};  // connect, send and read the answer; 0: none
  std::chrono::milliseconds first_pause{250};        // doubled after each attempt
  int max_attempts = 4;                              // for a batch
};

class OtlpHttpExporter final : public SpanExporter {
 public:
  // Nothing is connected yet. Throws std::runtime_error if the certificates can't
  // be read.
  OtlpHttpExporter(OtlpEndpoint endpoint, const TraceSource& source, OtlpHttpOptions options = {});
  ~OtlpHttpExporter() override;

  std::size_t send(const std::vector<SpanTree>& trees, const ExportDeadline& deadline) override;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
