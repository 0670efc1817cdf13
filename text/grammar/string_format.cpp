// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/string_format.hpp"

namespace troupe {
namespace {

// February has 28 days here: a pattern doesn't know leap years. There is no year 0.
std::string date() {
  return "(?:[1-9]\\d{3}|0[1-9]\\d{2}|00[1-9]\\d|000[1-9])-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:"
         "0[469]|11)-(?:0[1-9]|[12]\\d|30)|"
         "02-(?:0[1-9]|1\\d|2[0-8]))";
}

std::string time() {
  return "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
}

std::string ipv4() {
  const std::string part = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  return part + "(?:\\." + part + "){3}";
}

// Eight groups, or fewer around one "::".
std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  std::string pattern = group + "(?::" + group + "){7}|::|::" + group + "(?::" + group + "){0,6}";
  for (int before = 1; before <= 7; ++before) {
    const std::string first = group + "(?::" + group + "){" + std::to_string(before - 1) + "}::";
    pattern += "|" + first;
    if (before < 7)
      pattern += "|" + first + group + "(?::" + group + "){0," + std::to_string(6 - before) + "}";
  }
  return pattern;
}

std::string hostname() {
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
  return label + "(?:\\." + label + "){0,6}";
}

std::string duration() {
  const std::string time_part =
      "T(?:\\d{1,6}H(?:\\d{1,6}M(?:\\d{1,6}S)?)?|\\d{1,6}M(?:\\d{1,6}S)?|\\d{1,6}S)";
  const std::string date_part = "(?:\\d{1,6}Y(?:\\d{1,6}M(?:\\d{1,6}D)?)?|\\d{1,6}M(?:\\d{1,6}D)?|\\d{1,6}D)";
  return "P(?:" + date_part + "(?:" + time_part + ")?|" + time_part + "|\\d{1,6}W)";
}

}  // namespace

std::optional<std::string> pattern_of_format(std::string_view format) {
  const std::string local = "[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,16}){0,2}";
  const std::string path = "(?:[A-Za-z0-9_.~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})";
  const std::string rest = path + "*(?:\\?" + path + "*)?(?:#" + path + "*)?";
  if (format == "date") return date();
  if (format == "time") return time();
  if (format == "date-time") return date() + "T" + time();
  if (format == "duration") return duration();
  if (format == "uuid") return "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
  if (format == "email") return local + "@[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?\\.[A-Za-z]{2,12}";
  if (format == "hostname") return hostname();
  if (format == "ipv4") return ipv4();
  if (format == "ipv6") return ipv6();
  if (format == "uri" || format == "url")
    return "[a-z][a-z0-9+.-]{0,15}://(?:" + hostname() + ")(?::[1-9]\\d{0,3})?(?:/" + rest + ")?";
  return std::nullopt;
}

}  // namespace troupe
