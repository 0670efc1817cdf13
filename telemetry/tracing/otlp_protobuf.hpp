// SPDX-License-Identifier: Apache-2.0
// Spans as OTLP in protobuf: one ExportTraceServiceRequest, by the field numbers
// of opentelemetry-proto. Every collector and dashboard takes it.
#pragma once

#include <string>
#include <vector>

#include "telemetry/protobuf_writer.hpp"
#include "telemetry/tracing/span_exporter.hpp"

namespace troupe {

class OtlpProtobuf {
 public:
  explicit OtlpProtobuf(const TraceSource& source);

  std::string request_of(const std::vector<SpanTree>& trees) const;

 private:
  // The same in every request.
  ProtobufWriter resource_;
  ProtobufWriter scope_;
};

}  // namespace troupe
