// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/field_reader.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace troupe {
namespace {

namespace json = boost::json;

std::string format(double number) { return json::serialize(json::value(number)); }

// Bounds are written as people write them: 2, not 2E0.
std::string format_bound(double bound) {
  if (bound == std::floor(bound) && std::abs(bound) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(bound));
  }
  return format(bound);
}

}  // namespace

const json::value* FieldReader::find(std::string_view name) const {
  const json::value* value = object_.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const auto* value = find(name);
  if (value == nullptr || error_) return std::nullopt;
  if (value->is_bool()) return value->get_bool();
  fail(name, "true or false", *value);
  return std::nullopt;
}

std::optional<std::string> FieldReader::string(std::string_view name) {
  const auto* value = find(name);
  if (value == nullptr || error_) return std::nullopt;
  if (value->is_string()) return std::string(value->get_string().c_str(), value->get_string().size());
  fail(name, "a string", *value);
  return std::nullopt;
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name, std::int64_t min, std::int64_t max) {
  const auto* value = find(name);
  if (value == nullptr || error_) return std::nullopt;
  const auto number = as_integer(*value);
  if (number && *number >= min && *number <= max) return number;
  fail(name, "an integer from " + std::to_string(min) + " to " + std::to_string(max), *value);
  return std::nullopt;
}

std::optional<std::uint64_t> FieldReader::bits64(std::string_view name) {
  const auto* value = find(name);
  if (value == nullptr || error_) return std::nullopt;
  if (value->is_uint64()) return value->get_uint64();
  if (const auto number = as_integer(*value)) return static_cast<std::uint64_t>(*number);
  fail(name, "an integer of 64 bits", *value);
  return std::nullopt;
}

std::optional<double> FieldReader::number(std::string_view name, double min, double max) {
  const auto* value = find(name);
  if (value == nullptr || error_) return std::nullopt;
  std::optional<double> number;
  if (value->is_double()) number = value->get_double();
  if (value->is_int64()) number = static_cast<double>(value->get_int64());
  if (value->is_uint64()) number = static_cast<double>(value->get_uint64());
  if (number && *number >= min && *number <= max) return number;
  fail(name, "a number from " + format_bound(min) + " to " + format_bound(max), *value);
  return std::nullopt;
}

void FieldReader::fail(std::string_view name, std::string_view sentence) {
  if (error_) return;
  const std::string field = full_name(name);
  error_ = ApiError{
      .kind = ApiErrorKind::kInvalidRequest, .message = field + std::string(sentence), .field = field};
}

void FieldReader::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void FieldReader::adopt(const FieldReader& inner) {
  if (!error_) error_ = inner.error_;
}

void FieldReader::fail(std::string_view name, std::string_view expectation, const json::value& got) {
  fail(name, " must be " + std::string(expectation) + ", got " + describe(got));
}

std::string describe(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return "null";
    case json::kind::bool_: return value.get_bool() ? "true" : "false";
    case json::kind::int64: return std::to_string(value.get_int64());
    case json::kind::uint64: return std::to_string(value.get_uint64());
    case json::kind::double_: return format(value.get_double());
    case json::kind::string: return "a string";
    case json::kind::array: return "a list of " + std::to_string(value.get_array().size());
    case json::kind::object: return "an object";
  }
  return "something else";
}

std::optional<std::int64_t> as_integer(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  if (number != std::floor(number) || std::abs(number) > 9e15) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<std::int32_t> as_token_id(const json::value& value) {
  const auto id = as_integer(value);
  if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  return static_cast<std::int32_t>(*id);
}

void read_token_ids(FieldReader& fields, std::string_view name, const json::array& ids,
                    std::vector<std::int32_t>& out) {
  out.reserve(ids.size());
  for (const auto& entry : ids) {
    const auto id = as_token_id(entry);
    if (!id) return fields.fail(name, "made of token ids from 0 to 2147483647", entry);
    out.push_back(*id);
  }
}

}  // namespace troupe
