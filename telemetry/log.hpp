// SPDX-License-Identifier: Apache-2.0
// Structured logs to standard error, as text or as one JSON object a line.
// Values are escaped; prompts, tokens and keys are never logged at any level.
// May be called from any thread and never waits for the terminal: a thread of
// its own writes, and what it can't write in time is dropped and counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat : std::uint8_t { kText, kJson };

// "debug", "info", "warning", "error", "off"; nullopt for anything else.
std::optional<LogLevel> parse_log_level(std::string_view name);

void configure_logging(LogLevel level, LogFormat format);
bool is_logged(LogLevel level);
// Waits until all that was logged is written. False if that took longer than the
// time given. The end of the process does this too, for a second at most.
bool flush_log(std::chrono::milliseconds time);

struct LogField {
  LogField(std::string_view key_, std::string_view value) : key(key_), text(value) {}
  LogField(std::string_view key_, const char* value) : key(key_), text(value) {}
  LogField(std::string_view key_, const std::string& value) : key(key_), text(value) {}
  LogField(std::string_view key_, std::int64_t value)
      : key(key_), text(std::to_string(value)), is_number(true) {}
  LogField(std::string_view key_, std::uint64_t value)
      : key(key_), text(std::to_string(value)), is_number(true) {}
  LogField(std::string_view key_, int value) : LogField(key_, static_cast<std::int64_t>(value)) {}
  LogField(std::string_view key_, unsigned value) : LogField(key_, static_cast<std::uint64_t>(value)) {}
  LogField(std::string_view key_, double value);

  std::string_view key;
  std::string text;
  bool is_number = false;
};

// event: what happened, in a few fixed words; everything variable is a field.
void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

}  // namespace troupe
