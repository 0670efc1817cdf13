// SPDX-License-Identifier: Apache-2.0
// Spans as OTLP/JSON: one ExportTraceServiceRequest. By OTLP's rules ids are
// hex (not base64), 64-bit integers are strings and enums are numbers.
#pragma once

#include <string>
#include <vector>

#include "telemetry/tracing/span_exporter.hpp"

namespace troupe {

class OtlpJson {
 public:
  explicit OtlpJson(const TraceSource& source);

  // One line, without its end.
  std::string request_of(const std::vector<SpanTree>& trees) const;

 private:
  std::string head_;  // up to the spans; the same in every request
};

}  // namespace troupe
