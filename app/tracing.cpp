// SPDX-License-Identifier: Apache-2.0
#include "app/tracing.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "app/options/configuration_error.hpp"
#include "telemetry/log.hpp"
#include "telemetry/tracing/otlp_exporter.hpp"
#include "telemetry/tracing/otlp_file_exporter.hpp"
#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// OpenTelemetry's own variables count where nothing else was said.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Empty: none.
std::string endpoint_url(const Options& options) {
  if (!options.trace_endpoint.empty()) return options.trace_endpoint;
  const std::string traces = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  if (!traces.empty()) return traces;
  std::string base = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
  while (base.ends_with('/')) base.pop_back();
  return base.empty() ? "" : base + "/v1/traces";
}

std::string service_name(const Options& options) {
  if (!options.trace_service_name.empty()) return options.trace_service_name;
  const std::string name = variable("OTEL_SERVICE_NAME");
  return name.empty() ? "troupe" : name;
}

TraceSource source_of(const Options& options) {
  const std::string host = host_name();
  return {.service_name = service_name(options),
          .version = TROUPE_VERSION,
          .more = {{semconv::kHostName, host},
                   {semconv::kProcessPid, std::int64_t{::getpid()}},
                   {semconv::kServiceInstanceId, host + ":" + std::to_string(::getpid())}}};
}

std::unique_ptr<SpanExporter> exporter_to(const std::string& url, const Options& options) {
  OtlpEndpoint endpoint = parse_otlp_endpoint(url);
  log(LogLevel::kInfo, "traces go to a collector",
      {{"host", endpoint.host}, {"port", unsigned{endpoint.port}}, {"by", otlp_exporter_name()}});
  return make_otlp_exporter(std::move(endpoint), source_of(options));
}

}  // namespace

std::vector<std::unique_ptr<SpanExporter>> make_exporters(const Options& options) {
  std::vector<std::unique_ptr<SpanExporter>> exporters;
  if (!options.trace_file.empty())
    exporters.push_back(from_option("--trace-file", [&] {
      return std::make_unique<OtlpFileExporter>(options.trace_file, options.trace_file_bytes,
                                                source_of(options));
    }));
  if (const std::string url = endpoint_url(options); !url.empty())
    exporters.push_back(from_option("--trace-endpoint", [&] { return exporter_to(url, options); }));
  return exporters;
}

std::unique_ptr<Tracer> make_tracer(const Options& options, Metrics& metrics,
                                    std::vector<std::unique_ptr<SpanExporter>> exporters) {
  if (exporters.empty()) return nullptr;
  TracerOptions tracer;
  tracer.sample_ratio = options.trace_sample_ratio;
  tracer.keep_slower_than = std::chrono::milliseconds(options.trace_keep_slower_than_ms);
  tracer.max_iterations_per_second = static_cast<std::uint32_t>(options.trace_max_iterations_per_second);
  tracer.pipeline.max_queued_spans = options.trace_max_queued_spans;
  return std::make_unique<Tracer>(tracer, metrics, std::move(exporters));
}

}  // namespace troupe
