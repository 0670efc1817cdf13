// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/trace_context.hpp"

#include "telemetry/system_random.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

constexpr std::size_t kTraceparentBytes = 55;
constexpr std::size_t kMaxTracestateBytes = 512;
constexpr std::size_t kMaxTracestateMembers = 32;
constexpr std::size_t kMaxTracestateNameBytes = 256;

// Lower case only, as the W3C has it.
std::optional<std::uint64_t> parse_hex(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char c : digits) {
    number <<= 4;
    if (c >= '0' && c <= '9') {
      number |= static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      number |= static_cast<std::uint64_t>(c - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return number;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '*' || c == '/' ||
         c == '@';
}

bool is_value_character(char c) { return c >= 0x20 && c <= 0x7E && c != ',' && c != '='; }

bool is_tracestate_member(std::string_view member) {
  const std::size_t equals = member.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals > kMaxTracestateNameBytes) return false;
  const auto name = member.substr(0, equals);
  const auto value = member.substr(equals + 1);
  return std::all_of(name.begin(), name.end(), is_name_character) && !value.empty() && value.back() != ' ' &&
         std::all_of(value.begin(), value.end(), is_value_character);
}

std::string_view without_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view header) {
  if (header.size() < kTraceparentBytes) return std::nullopt;
  if (header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
  const auto version = parse_hex(header.substr(0, 2));
  if (!version || *version == 0xFF) return std::nullopt;
  const bool is_longer = header.size() > kTraceparentBytes;
  if (is_longer && (*version == 0 || header[kTraceparentBytes] != '-')) return std::nullopt;
  const auto high = parse_hex(header.substr(3, 16));
  const auto low = parse_hex(header.substr(19, 16));
  const auto span = parse_hex(header.substr(36, 16));
  const auto flags = parse_hex(header.substr(53, 2));
  if (!high || !low || !span || !flags) return std::nullopt;
  const TraceContext context{
      .trace = {.high = *high, .low = *low}, .span = *span, .is_sampled = (*flags & 1) != 0};
  return context.is_valid() ? std::optional(context) : std::nullopt;
}

std::string format_traceparent(const TraceContext& context) {
  return "00-" + hex_of(context.trace) + "-" + hex_of(context.span) + (context.is_sampled ? "-01" : "-00");
}

std::string checked_tracestate(std::string_view header) {
  if (header.size() > kMaxTracestateBytes) return {};
  std::size_t num_members = 0;
  for (std::string_view rest = header; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const auto member = without_blanks(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (member.empty()) continue;  // allowed between commas
    if (++num_members > kMaxTracestateMembers || !is_tracestate_member(member)) return {};
  }
  return std::string(header);
}

void append_hex(std::string& out, std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(number >> shift) & 15];
}

std::string hex_of(const TraceId& trace) {
  std::string out;
  append_hex(out, trace.high);
  append_hex(out, trace.low);
  return out;
}

std::string hex_of(SpanId span) {
  std::string out;
  append_hex(out, span);
  return out;
}

bool is_in_ratio(const TraceId& trace, double ratio) {
  constexpr int kRandomBits = 56;
  if (ratio >= 1.0) return true;
  if (!(ratio > 0.0)) return false;
  const auto threshold = static_cast<std::uint64_t>(std::ldexp(1.0 - ratio, kRandomBits));
  return (trace.low & ((std::uint64_t{1} << kRandomBits) - 1)) >= threshold;
}

TraceId draw_trace_id() { return {.high = draw_span_id(), .low = draw_span_id()}; }

SpanId draw_span_id() {
  for (;;) {
    if (const std::uint64_t drawn = system_random(); drawn != 0) return drawn;
  }
}

}  // namespace troupe
