// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/otlp_environment.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr std::string_view kPrefix = "OTEL_EXPORTER_OTLP_";

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

bool is_switched_off(const VariableReader& read) {
  return lower_case(read("OTEL_SDK_DISABLED")) == "true" ||
         lower_case(read("OTEL_TRACES_EXPORTER")) == "none";
}

struct Setting {
  std::string name;  // of the variable
  std::string value;
};

// "PROTOCOL": OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, else OTEL_EXPORTER_OTLP_PROTOCOL.
std::optional<Setting> setting_of(const VariableReader& read, std::string_view what) {
  for (const std::string_view signal : {"TRACES_", ""}) {
    std::string name = std::string(kPrefix).append(signal).append(what);
    if (std::string value = read(name); !value.empty())
      return Setting{.name = std::move(name), .value = std::move(value)};
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const Setting& setting, std::string_view expected) {
  throw std::runtime_error(setting.name + ": expected " + std::string(expected) + ", got '" + setting.value +
                           "'");
}

OtlpFormat format_of(const Setting& setting) {
  const std::string value = lower_case(setting.value);
  if (value == "http/protobuf") return OtlpFormat::kProtobuf;
  if (value == "http/json") return OtlpFormat::kJson;
  if (value == "grpc") refuse(setting, "http/protobuf or http/json (a collector takes these on port 4318)");
  refuse(setting, "http/protobuf or http/json");
}

bool is_gzip(const Setting& setting) {
  const std::string value = lower_case(setting.value);
  if (value == "gzip") return true;
  if (value != "none") refuse(setting, "gzip or none");
  return false;
}

std::chrono::milliseconds timeout_of(const Setting& setting) {
  const char* end = setting.value.data() + setting.value.size();
  std::uint32_t number = 0;
  const auto [rest, error] = std::from_chars(setting.value.data(), end, number);
  if (error != std::errc{} || rest != end) refuse(setting, "milliseconds, 0 for no limit");
  return std::chrono::milliseconds(number);
}

// ---- headers

[[noreturn]] void refuse_headers(const Setting& setting, std::size_t position, std::string_view why) {
  throw std::runtime_error(setting.name + ": expected name=value,name=value with percent-encoded values; " +
                           std::string(why) + " in number " + std::to_string(position));
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// As HTTP has it.
bool is_header_name(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

// No line's end, or what follows would be a header of its own.
bool is_header_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7F);
  });
}

// The exporter sets these itself, or they ask for an answer that it does not understand.
bool is_ours(std::string_view name) {
  constexpr std::array<std::string_view, 10> kOurs = {
      "connection", "content-encoding", "content-length",    "content-type", "expect", "host",
      "te",         "trailer",          "transfer-encoding", "upgrade"};
  return std::find(kOurs.begin(), kOurs.end(), lower_case(name)) != kOurs.end();
}

// nullopt: a % without two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (text.front() != '%') {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    const std::string_view digits = text.substr(1, 2);
    unsigned byte = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (error != std::errc{} || rest != digits.data() + 2) return std::nullopt;
    out += static_cast<char>(byte);
    text.remove_prefix(3);
  }
  return out;
}

std::vector<HttpHeader> headers_of(const Setting& setting) {
  std::vector<HttpHeader> headers;
  std::size_t position = 0;
  for (std::string_view rest = setting.value; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const auto member = trimmed(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (member.empty()) continue;  // allowed between commas
    position += 1;
    const std::size_t equals = member.find('=');
    if (equals == std::string_view::npos) refuse_headers(setting, position, "there is no =");
    const auto name = trimmed(member.substr(0, equals));
    if (!is_header_name(name)) refuse_headers(setting, position, "the name is none of a header");
    if (is_ours(name)) refuse_headers(setting, position, "the exporter alone decides about this header");
    const auto value = percent_decoded(trimmed(member.substr(equals + 1)));
    if (!value) refuse_headers(setting, position, "a % without two hexadecimal digits");
    if (!is_header_value(*value)) refuse_headers(setting, position, "a control character");
    headers.push_back({std::string(name), *value});
  }
  return headers;
}

std::string without_slashes_behind(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

std::optional<OtlpEndpoint> otlp_endpoint_of(const VariableReader& read) {
  const auto setting = setting_of(read, "ENDPOINT");
  if (!setting || is_switched_off(read)) return std::nullopt;
  try {
    if (setting->name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
      return parse_otlp_endpoint(setting->value, "/");
    parse_otlp_endpoint(setting->value);  // as it came, for the text of a refusal
    return parse_otlp_endpoint(without_slashes_behind(setting->value) + "/v1/traces");
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(setting->name + ": " + error.what());
  }
}

OtlpHttpOptions otlp_options_of(const VariableReader& read) {
  OtlpHttpOptions options;
  if (const auto setting = setting_of(read, "PROTOCOL")) options.format = format_of(*setting);
  if (const auto setting = setting_of(read, "COMPRESSION")) options.is_gzipped = is_gzip(*setting);
  if (const auto setting = setting_of(read, "HEADERS")) options.headers = headers_of(*setting);
  if (const auto setting = setting_of(read, "TIMEOUT")) options.attempt_timeout = timeout_of(*setting);
  if (const auto setting = setting_of(read, "CERTIFICATE")) options.trusted_certificates = setting->value;
  return options;
}

}  // namespace troupe
