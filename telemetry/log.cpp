// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <cstdio>

namespace troupe {
namespace {

std::atomic<LogFormat> format_in_use{LogFormat::kText};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_color_mt("troupe");
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *instance;
}

// A JSON string: quotes, backslashes and control characters escaped.
void append_quoted(std::string& line, std::string_view text) {
  line += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned char>(c));
      line += escape.data();
    } else {
      line += c;
    }
  }
  line += '"';
}

bool is_plain(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '\\' || c == 0x7F) return false;
  }
  return !text.empty();
}

std::string text_line(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const auto& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    if (is_plain(field.text)) {
      line += field.text;
    } else {
      append_quoted(line, field.text);
    }
  }
  return line;
}

// Without its braces: the pattern adds time and level.
std::string json_fields(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line = "\"event\":";
  append_quoted(line, event);
  for (const auto& field : fields) {
    line += ',';
    append_quoted(line, field.key);
    line += ':';
    if (field.is_number) {
      line += field.text;
    } else {
      append_quoted(line, field.text);
    }
  }
  return line;
}

}  // namespace

LogField::LogField(std::string_view key_, double value) : key(key_), is_number(true) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.6g", value);
  text = digits.data();
  // JSON knows neither infinity nor NaN.
  if (text.find_first_not_of("0123456789+-.e") != std::string::npos) is_number = false;
}

std::optional<LogLevel> parse_log_level(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return std::nullopt;
}

void configure_logging(LogLevel level, LogFormat format) {
  format_in_use = format;
  logger().set_level(to_spdlog(level));
  logger().set_pattern(format == LogFormat::kJson
                           ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})"
                           : "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
}

bool is_logged(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!is_logged(level)) return;
  const auto line =
      format_in_use == LogFormat::kJson ? json_fields(event, fields) : text_line(event, fields);
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace troupe
