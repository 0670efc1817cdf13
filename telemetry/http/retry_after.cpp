// SPDX-License-Identifier: Apache-2.0
#include "telemetry/http/retry_after.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <ctime>
#include <iomanip>
#include <locale>
#include <sstream>
#include <string>

namespace troupe {

std::chrono::seconds parse_retry_after(std::string_view header, std::chrono::system_clock::time_point now) {
  std::uint32_t seconds = 0;
  const char* end = header.data() + header.size();
  const auto [rest, error] = std::from_chars(header.data(), end, seconds);
  if (error == std::errc{} && rest == end) return std::chrono::seconds(seconds);
  std::istringstream text{std::string(header)};
  text.imbue(std::locale::classic());
  std::tm date{};
  text >> std::get_time(&date, "%a, %d %b %Y %H:%M:%S GMT");
  if (text.fail()) return std::chrono::seconds(0);
  // In seconds: a date after 2262 has too many nanoseconds for the clock's type.
  const std::chrono::seconds time(::timegm(&date));
  return std::max(time - std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()),
                  std::chrono::seconds(0));
}

}  // namespace troupe
