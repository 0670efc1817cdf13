// SPDX-License-Identifier: Apache-2.0
#include "app/tracing.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "app/options/configuration_error.hpp"
#include "telemetry/log.hpp"
#include "telemetry/tracing/genai_environment.hpp"
#include "telemetry/tracing/otlp_environment.hpp"
#include "telemetry/tracing/otlp_file_exporter.hpp"
#include "telemetry/tracing/otlp_http_exporter.hpp"
#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// OpenTelemetry's own variables count where nothing else was said.
std::string variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

// nullopt: none.
std::optional<OtlpEndpoint> endpoint_of(const Options& options) {
  if (options.trace_endpoint.empty()) return otlp_endpoint_of(variable);
  return from_option("--trace-endpoint", [&] { return parse_otlp_endpoint(options.trace_endpoint); });
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

std::unique_ptr<SpanExporter> exporter_to(OtlpEndpoint endpoint, const Options& options) {
  OtlpHttpOptions http = otlp_options_of(variable);
  log(LogLevel::kInfo, "traces go to a collector",
      {{"host", endpoint.host},
       {"port", unsigned{endpoint.port}},
       {"format", http.format == OtlpFormat::kJson ? "json" : "protobuf"}});
  if (!http.headers.empty() && endpoint.is_exposed())
    log(LogLevel::kWarning, "headers of the environment go to the collector without TLS",
        {{"to", endpoint.origin()}});
  return std::make_unique<OtlpHttpExporter>(std::move(endpoint), source_of(options), std::move(http));
}

// For readers of variables, whose names are in the texts of their errors.
template <class Read>
auto from_variables(Read read) {
  try {
    return read();
  } catch (const std::exception& error) {
    throw ConfigurationError(error.what());
  }
}

// The exporter to the collector; null if no endpoint is set.
std::unique_ptr<SpanExporter> make_collector_exporter(const Options& options) {
  return from_variables([&]() -> std::unique_ptr<SpanExporter> {
    auto endpoint = endpoint_of(options);
    return endpoint ? exporter_to(std::move(*endpoint), options) : nullptr;
  });
}

// It is there and can be written, or can be made.
void check_trace_file(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(file, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw std::runtime_error("the trace file must be a regular file: " + file.string());
  const fs::path written = fs::exists(status) ? file : fs::absolute(file).parent_path();
  if (::access(written.c_str(), fs::exists(status) ? R_OK | W_OK : W_OK | X_OK) != 0)
    throw std::runtime_error("the trace file can't be opened: " + file.string() + ": " +
                             std::generic_category().message(errno));
}

TracerOptions tracer_options(const Options& options) {
  TracerOptions tracer;
  tracer.sample_ratio = options.trace_sample_ratio;
  tracer.keep_slower_than = std::chrono::milliseconds(options.trace_keep_slower_than_ms);
  tracer.max_iterations_per_second = static_cast<std::uint32_t>(options.trace_max_iterations_per_second);
  tracer.writes_old_names = writes_old_genai_names(variable);
  tracer.capture = genai_content_capture(variable);
  tracer.max_recent_requests = options.trace_recent_requests;
  tracer.pipeline.max_queued_spans = options.trace_max_queued_spans;
  return tracer;
}

}  // namespace

PreparedTracing prepare_tracing(const Options& options) {
  PreparedTracing prepared;
  if (!options.trace_file.empty())
    prepared.destinations.push_back({.exporter = from_option("--trace-file", [&] {
                                       return std::make_unique<OtlpFileExporter>(
                                           options.trace_file, options.trace_file_bytes, source_of(options));
                                     })});
  if (auto exporter = make_collector_exporter(options))
    prepared.destinations.push_back(
        {.exporter = std::move(exporter), .takes_iterations = options.trace_exports_iterations});
  if (!prepared.destinations.empty()) {
    prepared.options = tracer_options(options);
  } else {
    prepared.options.max_recent_requests = options.trace_recent_requests;
  }
  return prepared;
}

bool check_tracing(const Options& options) {
  if (!options.trace_file.empty()) from_option("--trace-file", [&] { check_trace_file(options.trace_file); });
  const auto exporter = make_collector_exporter(options);
  if (!exporter && options.trace_file.empty()) return false;
  tracer_options(options);
  return true;
}

std::unique_ptr<Tracer> make_tracer(PreparedTracing prepared, Metrics& metrics) {
  if (prepared.destinations.empty() && prepared.options.max_recent_requests == 0) return nullptr;
  return std::make_unique<Tracer>(prepared.options, metrics, std::move(prepared.destinations));
}

}  // namespace troupe
