// SPDX-License-Identifier: Apache-2.0
// Takes typed fields out of a JSON object and checks their ranges. The first
// thing that is wrong is kept, with the name of its field; after that every
// read returns nothing, so a caller checks once at the end. A field that is
// null counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "actors/request/api_error.hpp"

namespace troupe {

class FieldReader {
 public:
  explicit FieldReader(const boost::json::object& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  // Null if absent or JSON null.
  const boost::json::value* find(std::string_view name) const;

  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name);
  // An integer in [min, max]; 3.0 counts as 3.
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t min, std::int64_t max);
  // Any 64-bit integer, negative ones as two's complement.
  std::optional<std::uint64_t> bits64(std::string_view name);
  std::optional<double> number(std::string_view name, double min, double max);

  // "<name><sentence>", and "<name> must be <expectation>, got <what it is>".
  void fail(std::string_view name, std::string_view sentence);
  void fail(std::string_view name, std::string_view expectation, const boost::json::value& got);
  void fail(ApiError error);
  // Takes over what went wrong in an object inside this one.
  void adopt(const FieldReader& inner);
  std::string full_name(std::string_view name) const { return prefix_ + std::string(name); }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const boost::json::object& object_;
  std::string prefix_;
  std::optional<ApiError> error_;
};

// Describes a value for error messages: its kind and, if it is a number, which.
std::string describe(const boost::json::value& value);
// The value as an integer, if it is one and fits.
std::optional<std::int64_t> as_integer(const boost::json::value& value);
// The value as the id of a token, if it may be one: the vocabulary isn't known here.
std::optional<std::int32_t> as_token_id(const boost::json::value& value);
// Appends the ids of a list; what is none is an error of the field `name`.
void read_token_ids(FieldReader& fields, std::string_view name, const boost::json::array& ids,
                    std::vector<std::int32_t>& out);

}  // namespace troupe
