// SPDX-License-Identifier: Apache-2.0
// Traces through the OpenTelemetry C++ SDK's OTLP/HTTP exporter. Only its
// exporter is used: ids, times and sampling are ours, and so are queue and
// thread; its recordables are filled from our spans.
#include "telemetry/tracing/otlp_exporter.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <opentelemetry/exporters/otlp/otlp_http_exporter.h>
#include <opentelemetry/sdk/common/global_log_handler.h>
#include <opentelemetry/sdk/instrumentationscope/instrumentation_scope.h>
#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/trace/recordable.h>
#include <opentelemetry/trace/trace_state.h>
#include <opentelemetry/version.h>

#include "telemetry/log.hpp"
#include "telemetry/tracing/export_complaint.hpp"
#include "telemetry/tracing/semantic_conventions.hpp"

namespace troupe {
namespace {

namespace otel = opentelemetry;
using Recordable = otel::sdk::trace::Recordable;

// For an attempt; nothing interrupts one, so it bounds the end of the process too.
constexpr std::chrono::seconds kAttemptTimeout{3};

otel::nostd::string_view view(std::string_view text) { return {text.data(), text.size()}; }

template <std::size_t size>
std::array<std::uint8_t, size> big_endian(std::initializer_list<std::uint64_t> words) {
  std::array<std::uint8_t, size> bytes{};
  std::size_t at = 0;
  for (const std::uint64_t word : words)
    for (int shift = 56; shift >= 0; shift -= 8) bytes[at++] = static_cast<std::uint8_t>(word >> shift);
  return bytes;
}

otel::trace::SpanId span_id(SpanId id) {
  const auto bytes = big_endian<8>({id});
  return otel::trace::SpanId(otel::nostd::span<const std::uint8_t, 8>(bytes.data(), 8));
}

otel::trace::SpanContext span_context(const TraceContext& context, const std::string& tracestate = {}) {
  const auto bytes = big_endian<16>({context.trace.high, context.trace.low});
  const otel::trace::TraceId trace(otel::nostd::span<const std::uint8_t, 16>(bytes.data(), 16));
  const otel::trace::TraceFlags flags(context.is_sampled ? otel::trace::TraceFlags::kIsSampled : 0);
  return {trace, span_id(context.span), flags, false, otel::trace::TraceState::FromHeader(view(tracestate))};
}

otel::common::SystemTimestamp timestamp(std::int64_t unix_nanoseconds) {
  return otel::common::SystemTimestamp(std::chrono::nanoseconds(unix_nanoseconds));
}

// Calls use(value) with the value in the SDK's own terms.
template <class Use>
void with_value(const AttributeValue& value, Use use) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    const std::vector<otel::nostd::string_view> views(texts->begin(), texts->end());
    return use(otel::common::AttributeValue(
        otel::nostd::span<const otel::nostd::string_view>(views.data(), views.size())));
  }
  if (const auto* text = std::get_if<std::string>(&value))
    return use(otel::common::AttributeValue(view(*text)));
  if (const auto* flag = std::get_if<bool>(&value)) return use(otel::common::AttributeValue(*flag));
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return use(otel::common::AttributeValue(*number));
  use(otel::common::AttributeValue(std::get<double>(value)));
}

class EventAttributes final : public otel::common::KeyValueIterable {
 public:
  explicit EventAttributes(const std::vector<SpanAttribute>& attributes) : attributes_(attributes) {}
  bool ForEachKeyValue(otel::nostd::function_ref<bool(otel::nostd::string_view, otel::common::AttributeValue)>
                           callback) const noexcept override {
    bool goes_on = true;
    for (const auto& attribute : attributes_)
      if (goes_on)
        with_value(attribute.value,
                   [&](const auto& value) { goes_on = callback(view(attribute.key), value); });
    return goes_on;
  }
  std::size_t size() const noexcept override { return attributes_.size(); }

 private:
  const std::vector<SpanAttribute>& attributes_;
};

void fill(Recordable& recordable, const Span& span) {
  recordable.SetIdentity(span_context(span.context, span.tracestate), span_id(span.parent));
  recordable.SetName(view(span.name));
  recordable.SetSpanKind(span.kind == SpanKind::kServer ? otel::trace::SpanKind::kServer
                                                        : otel::trace::SpanKind::kInternal);
  recordable.SetTraceFlags(span_context(span.context).trace_flags());
  recordable.SetStartTime(timestamp(span.start_unix_nanoseconds));
  recordable.SetDuration(std::chrono::nanoseconds(span.end_unix_nanoseconds - span.start_unix_nanoseconds));
  for (const auto& attribute : span.attributes)
    with_value(attribute.value,
               [&](const auto& value) { recordable.SetAttribute(view(attribute.key), value); });
  for (const auto& event : span.events)
    recordable.AddEvent(view(event.name), timestamp(event.unix_nanoseconds),
                        EventAttributes(event.attributes));
  const std::vector<SpanAttribute> none;
  for (const auto& link : span.links) recordable.AddLink(span_context(link), EventAttributes(none));
  if (span.status == SpanStatus::kError)
    recordable.SetStatus(otel::trace::StatusCode::kError, view(span.status_message));
}

otel::sdk::resource::Resource resource_of(const TraceSource& source) {
  otel::sdk::resource::ResourceAttributes attributes;
  const auto add = [&](std::string_view key, const AttributeValue& value) {
    with_value(value, [&](const auto& converted) { attributes.SetAttribute(view(key), converted); });
  };
  add(semconv::kServiceName, source.service_name);
  add(semconv::kServiceVersion, source.version);
  for (const auto& attribute : source.more) add(attribute.key, attribute.value);
  return otel::sdk::resource::Resource::Create(attributes);
}

// The SDK's own log, which else goes to standard output. Version 1.19's Export
// says success whatever happened, and so does ForceFlush; the error it logs while
// Export runs, on the same thread, is the only sign of a batch that was lost.
class SdkLog final : public otel::sdk::common::internal_log::LogHandler {
 public:
  using Level = otel::sdk::common::internal_log::LogLevel;

  void Handle(Level level, const char*, int, const char* message,
              const otel::sdk::common::AttributeMap&) noexcept override {
    if (level == Level::Error) has_error_ = true;
    log(LogLevel::kDebug, "opentelemetry sdk", {{"message", message == nullptr ? "" : message}});
  }
  bool take_error() { return has_error_.exchange(false); }

 private:
  std::atomic<bool> has_error_ = false;
};

class SdkExporter final : public SpanExporter {
 public:
  SdkExporter(const OtlpEndpoint& endpoint, const TraceSource& source)
      : exporter_(options_for(endpoint)),
        resource_(resource_of(source)),
        scope_(otel::sdk::instrumentationscope::InstrumentationScope::Create("troupe", source.version,
                                                                             view(semconv::kSchemaUrl))),
        complaint_(endpoint.url) {
    using otel::sdk::common::internal_log::LogHandler;
    otel::sdk::common::internal_log::GlobalLogHandler::SetLogHandler(
        otel::nostd::shared_ptr<LogHandler>(std::shared_ptr<LogHandler>(log_)));
  }

  std::size_t send(const std::vector<SpanTree>& trees, const ExportDeadline&) override {
    std::vector<std::unique_ptr<Recordable>> recordables;
    for (const auto& tree : trees) {
      for (const Span& span : *tree) {
        recordables.push_back(exporter_.MakeRecordable());
        fill(*recordables.back(), span);
        recordables.back()->SetResource(resource_);
        recordables.back()->SetInstrumentationScope(*scope_);
      }
    }
    log_->take_error();
    const auto result = exporter_.Export({recordables.data(), recordables.size()});
    if (log_->take_error() || result != otel::sdk::common::ExportResult::kSuccess) {
      complaint_.note_failure("the OpenTelemetry SDK could not deliver them");
      return 0;
    }
    complaint_.note_success();
    return count_spans(trees);
  }

 private:
  static otel::exporter::otlp::OtlpHttpExporterOptions options_for(const OtlpEndpoint& endpoint) {
    otel::exporter::otlp::OtlpHttpExporterOptions options;
    options.url = endpoint.url;
    options.content_type = otel::exporter::otlp::HttpRequestContentType::kJson;
    options.timeout = kAttemptTimeout;
    return options;
  }

  const std::shared_ptr<SdkLog> log_ = std::make_shared<SdkLog>();
  otel::exporter::otlp::OtlpHttpExporter exporter_;
  const otel::sdk::resource::Resource resource_;
  const std::unique_ptr<otel::sdk::instrumentationscope::InstrumentationScope> scope_;
  ExportComplaint complaint_;
};

}  // namespace

std::unique_ptr<SpanExporter> make_otlp_exporter(OtlpEndpoint endpoint, const TraceSource& source) {
  return std::make_unique<SdkExporter>(endpoint, source);
}

std::string_view otlp_exporter_name() { return "OpenTelemetry SDK " OPENTELEMETRY_VERSION; }

}  // namespace troupe
