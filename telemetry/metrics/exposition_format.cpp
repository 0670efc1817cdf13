// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics/exposition_format.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace troupe {
namespace {

constexpr std::string_view kProtobufType = "application/vnd.google.protobuf";
constexpr std::string_view kProtobufMessage = "io.prometheus.client.metricfamily";  // lower case

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Cuts off what is in front of the next separator, or all that is left.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = trimmed(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

struct MediaRange {
  std::string_view type;
  std::string_view message, encoding, version;  // empty: not given
  double quality = 1;
};

double quality_of(std::string_view text) {
  double quality = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quality);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number && quality > 0 && quality <= 1 ? quality : 0;
}

// type ; name = value ; …, in lower case
MediaRange parse_range(std::string_view text) {
  MediaRange range;
  range.type = take_until(text, ';');
  while (!text.empty()) {
    std::string_view value = take_until(text, ';');
    const std::string_view name = take_until(value, '=');
    value = trimmed(value);
    if (name == "q") range.quality = quality_of(value);
    if (name == "proto") range.message = value;
    if (name == "encoding") range.encoding = value;
    if (name == "version") range.version = value;
  }
  return range;
}

// How exactly a range names our text format; 0: not at all.
int text_precision(const MediaRange& range) {
  if (range.type == "text/plain") return range.version.empty() || range.version == "0.0.4" ? 3 : 0;
  if (range.type == "text/*") return 2;
  return range.type == "*/*" ? 1 : 0;
}

}  // namespace

ExpositionFormat choose_exposition(std::string_view accept) {
  std::string lower(accept);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  std::string_view rest = lower;
  double protobuf_quality = 0;
  double text_quality = 0;
  int precision = 0;
  while (!rest.empty()) {
    const MediaRange range = parse_range(take_until(rest, ','));
    if (range.type == kProtobufType && range.message == kProtobufMessage && range.encoding == "delimited")
      protobuf_quality = std::max(protobuf_quality, range.quality);
    if (const int found = text_precision(range); found > precision) {
      precision = found;
      text_quality = range.quality;
    }
  }
  return protobuf_quality > 0 && protobuf_quality >= text_quality ? ExpositionFormat::kProtobuf
                                                                  : ExpositionFormat::kText;
}

std::string_view content_type(ExpositionFormat format) {
  return format == ExpositionFormat::kText
             ? "text/plain; version=0.0.4; charset=utf-8"
             : "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
               "encoding=delimited";
}

}  // namespace troupe
