// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/limit_fields.hpp"

#include <string_view>

namespace troupe {
namespace {

void append_line(std::string& out, std::string_view name, const std::string& value) {
  out.append("x-ratelimit-").append(name).append(": ").append(value).append("\r\n");
}

// "3s", "3.05s"
std::string seconds_text(std::int64_t milliseconds) {
  std::string text = std::to_string(milliseconds / 1000);
  if (milliseconds % 1000 != 0) {
    std::string part = std::to_string(1000 + milliseconds % 1000).substr(1);
    part.erase(part.find_last_not_of('0') + 1);
    text += "." + part;
  }
  return text + "s";
}

}  // namespace

std::string limit_fields(const TenantAccount::Standing& standing) {
  std::string fields;
  const auto& [limits, reading] = standing;
  if (limits.max_requests > 0) {
    append_line(fields, "limit-requests", std::to_string(limits.max_requests));
    append_line(fields, "remaining-requests", std::to_string(reading.requests_left));
  }
  if (limits.tokens_per_minute > 0) {
    append_line(fields, "limit-tokens", std::to_string(limits.tokens_per_minute));
    append_line(fields, "remaining-tokens", std::to_string(reading.tokens_left));
    append_line(fields, "reset-tokens", duration_text(reading.until_full));
  }
  return fields;
}

std::string duration_text(std::chrono::nanoseconds duration) {
  const std::int64_t milliseconds = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  if (milliseconds < 1000) return std::to_string(milliseconds) + "ms";
  const std::int64_t minutes = milliseconds / 60000;
  std::string text;
  if (minutes >= 60) text += std::to_string(minutes / 60) + "h";
  if (minutes > 0) text += std::to_string(minutes % 60) + "m";
  return text + seconds_text(milliseconds % 60000);
}

}  // namespace troupe
