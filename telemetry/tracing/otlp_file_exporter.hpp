// SPDX-License-Identifier: Apache-2.0
// Traces as a local file: a line a batch, each an OTLP/JSON export request, the
// format of OpenTelemetry's file exporter. `troupe trace` reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "telemetry/tracing/export_complaint.hpp"
#include "telemetry/tracing/otlp_json.hpp"

namespace troupe {

class OtlpFileExporter final : public SpanExporter {
 public:
  // Appends to the file; one that is made has mode 0600. One that has reached
  // max_bytes is renamed to PATH.1 (an older PATH.1 is replaced) and begun anew: at
  // most twice max_bytes stay. Throws std::runtime_error that names the path if it
  // can't be written or is a symbolic link.
  OtlpFileExporter(std::filesystem::path path, std::uint64_t max_bytes, const TraceSource& source);
  ~OtlpFileExporter() override;
  OtlpFileExporter(const OtlpFileExporter&) = delete;
  OtlpFileExporter& operator=(const OtlpFileExporter&) = delete;

  std::size_t send(const std::vector<SpanTree>& trees, const ExportDeadline& deadline) override;

 private:
  void open();
  void rotate();
  bool append(const std::string& line);

  const std::filesystem::path path_;
  const std::uint64_t max_bytes_;
  const OtlpJson json_;
  int descriptor_ = -1;
  std::uint64_t num_bytes_ = 0;
  ExportComplaint complaint_;
};

}  // namespace troupe
