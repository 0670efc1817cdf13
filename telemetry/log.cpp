// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

#include "telemetry/log_writer.hpp"
#include "telemetry/quoted_text.hpp"

namespace troupe {
namespace {

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v";
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})";

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

// spdlog makes the line, the writer takes it away.
class WriterSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit WriterSink(LogWriter& writer) : writer_(writer), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    std::string line(buffer.data(), buffer.size());
    if (is_terminal_ && message.color_range_end > message.color_range_start) {
      line.insert(message.color_range_end, "\033[0m");
      line.insert(message.color_range_start, color_of(message.level));
    }
    writer_.put(std::move(line));
  }
  void flush_() override {}

 private:
  static const char* color_of(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::warn: return "\033[33m";
      case spdlog::level::err: return "\033[31m";
      case spdlog::level::debug: return "\033[36m";
      default: return "\033[32m";
    }
  }

  LogWriter& writer_;
  const bool is_terminal_;
};

// One logger a format: a line's fields and what stands around them are of the same, though
// the format may change meanwhile.
struct Logging {
  LogWriter writer{STDERR_FILENO};
  spdlog::logger text{"troupe", std::make_shared<WriterSink>(writer)};
  spdlog::logger json{"troupe", std::make_shared<WriterSink>(writer)};

  Logging() {
    text.set_pattern(kTextPattern);
    json.set_pattern(kJsonPattern);
  }
};

Logging& logging() {
  static Logging instance;
  return instance;
}

bool is_plain(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7F || c == '"' ||
        c == '\\' || c == '=')
      return false;
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
  logging().text.set_level(to_spdlog(level));
  logging().json.set_level(to_spdlog(level));
  format_in_use = format;
}

bool flush_log(std::chrono::milliseconds time) { return logging().writer.flush(time); }

bool is_logged(LogLevel level) { return logging().text.should_log(to_spdlog(level)); }

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!is_logged(level)) return;
  const bool is_json = format_in_use == LogFormat::kJson;
  const auto line = is_json ? json_fields(event, fields) : text_line(event, fields);
  spdlog::logger& logger = is_json ? logging().json : logging().text;
  logger.log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace troupe
