// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/json_values.hpp"

#include "telemetry/json_depth.hpp"

namespace troupe::loadgen {

using nlohmann::json;

json parse_json(const std::string& text, const std::string& place) {
  if (is_nested_deeper(text))
    throw std::runtime_error(place + ": expected JSON of at most " + std::to_string(kMaxJsonDepth) +
                             " levels");
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    throw std::runtime_error(place + ": expected JSON: " + error.what());
  }
}

std::uint32_t count_in(const JsonFields& fields, const char* key) {
  constexpr std::uint64_t kMaxCount = 1'000'000'000;
  return static_cast<std::uint32_t>(fields.number(key, kMaxCount));
}

std::string text_or_empty(const JsonFields& fields, const char* key) {
  return fields.has(key) ? fields.text(key) : "";
}

std::uint64_t whole_number(const json& value, const std::string& place) {
  if (!value.is_number_unsigned())
    throw std::runtime_error(place + ": expected whole numbers of at least 0, got " +
                             value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 40));
  return value.get<std::uint64_t>();
}

}  // namespace troupe::loadgen
