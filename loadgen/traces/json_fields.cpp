// SPDX-License-Identifier: Apache-2.0
#include "loadgen/traces/json_fields.hpp"

namespace troupe::loadgen {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxCount = 1'000'000'000;

std::string shown(const json& value) {
  constexpr std::size_t kMaxBytes = 40;
  // Invalid UTF-8 is replaced: dump() would throw.
  const auto text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > kMaxBytes ? text.substr(0, kMaxBytes) + "…" : text;
}

[[noreturn]] void refuse(const char* key, const char* expected, const json& value) {
  throw JsonFieldError(std::string("'") + key + "': expected " + expected + ", got " + shown(value));
}

const json& member(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw JsonFieldError(std::string("expected the member '") + key + "', got " + shown(object));
  return *found;
}

}  // namespace

json parse_object(const std::string& text) {
  json object;
  try {
    object = json::parse(text);
  } catch (const json::exception& error) {
    throw JsonFieldError(std::string("expected a JSON object: ") + error.what());
  }
  if (!object.is_object()) throw JsonFieldError("expected a JSON object, got " + shown(object));
  return object;
}

double number_in(const json& object, const char* key) {
  const auto& value = member(object, key);
  if (!value.is_number() || !(value.get<double>() >= 0)) refuse(key, "a number of at least 0", value);
  return value.get<double>();
}

std::uint32_t count_in(const json& object, const char* key) {
  const auto& value = member(object, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMaxCount)
    refuse(key, "a whole number from 0 to 1000000000", value);
  return value.get<std::uint32_t>();
}

std::uint64_t id_in(const json& object, const char* key) { return id_of(member(object, key), key); }

std::string text_in(const json& object, const char* key) {
  const auto& value = member(object, key);
  if (!value.is_string()) refuse(key, "a text", value);
  return value.get<std::string>();
}

const json& list_in(const json& object, const char* key) {
  const auto& value = member(object, key);
  if (!value.is_array()) refuse(key, "a list", value);
  return value;
}

std::uint64_t id_of(const json& value, const char* key) {
  if (!value.is_number_unsigned()) refuse(key, "whole numbers of at least 0", value);
  return value.get<std::uint64_t>();
}

}  // namespace troupe::loadgen
