// SPDX-License-Identifier: Apache-2.0
#include "app/tracing.hpp"

#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "telemetry/otlp_file_exporter.hpp"
#include "telemetry/semantic_conventions.hpp"

namespace troupe {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

TraceSource source_of(const Options& options) {
  const std::string host = host_name();
  return {.service_name = options.trace_service_name,
          .version = TROUPE_VERSION,
          .more = {{semconv::kHostName, host},
                   {semconv::kProcessPid, std::int64_t{::getpid()}},
                   {semconv::kServiceInstanceId, host + ":" + std::to_string(::getpid())}}};
}

}  // namespace

std::unique_ptr<Tracer> make_tracer(const Options& options, Metrics& metrics) {
  std::vector<std::unique_ptr<SpanExporter>> exporters;
  if (!options.trace_file.empty())
    exporters.push_back(std::make_unique<OtlpFileExporter>(
        options.trace_file, options.trace_file_bytes, source_of(options)));
  if (exporters.empty()) return nullptr;
  TracerOptions tracer;
  tracer.sample_ratio = options.trace_sample_ratio;
  tracer.keep_slower_than = std::chrono::milliseconds(options.trace_keep_slower_than_ms);
  tracer.pipeline.max_queued_spans = options.trace_max_queued_spans;
  return std::make_unique<Tracer>(tracer, metrics, std::move(exporters));
}

}  // namespace troupe
