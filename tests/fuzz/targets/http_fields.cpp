// SPDX-License-Identifier: Apache-2.0
// Fields of a request's header that are texts of their own: Host, Origin,
// traceparent, tracestate. The input is two of them, with LF between.
#include <optional>
#include <string>
#include <string_view>

#include "http/routing/trusted_hosts.hpp"
#include "telemetry/tracing/trace_context.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"

namespace troupe::fuzz {
namespace {

void check_trace(std::string_view traceparent, std::string_view tracestate) {
  if (const auto context = parse_traceparent(traceparent)) {
    require(context->is_valid(), "a trace context that is read is not valid");
    const auto again = parse_traceparent(format_traceparent(*context));
    require(again && again->trace == context->trace && again->span == context->span &&
                again->is_sampled == context->is_sampled,
            "a trace context is another one after it was written");
  }
  const std::string checked = checked_tracestate(tracestate);
  require(checked.empty() || checked == tracestate, "tracestate is neither taken nor dropped");
  require(checked.size() <= 512, "tracestate is longer than allowed");
}

void check_hosts(std::string_view host, std::string_view origin) {
  const TrustedHosts trusted("10.1.2.3", {"example.org"}, {"http://page.example"});
  const std::string_view name = host_name_of(host);
  if (trusted.trusts_host(host)) {
    require(!name.empty(), "a malformed host is trusted");
    require(is_host(name), "what is trusted is no host");
  }
  if (is_host(name)) require(host_name_of(name) == name || name.find(':') != name.npos, "a host changes");
  if (const auto* allowed = trusted.allows_origin(origin))
    require(*allowed == "http://page.example", "an origin is allowed that nobody named");
  if (!is_origin(origin)) return;
  const std::string normalized = normalized_origin(origin);
  require(is_origin(normalized), "a normalized origin is none");
  require(normalized_origin(normalized) == normalized, "normalizing an origin twice changes it");
}

}  // namespace

void fuzz_http_fields(std::string_view bytes) {
  const auto end = std::min(bytes.find('\n'), bytes.size());
  const auto first = bytes.substr(0, end);
  const auto second = bytes.substr(std::min(end + 1, bytes.size()));
  check_trace(first, second);
  check_hosts(first, second);
  TrustedHosts::is_same_origin(second, first);
}

}  // namespace troupe::fuzz
