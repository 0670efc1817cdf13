// SPDX-License-Identifier: Apache-2.0
// Reads a request body as JSON, strictly: besides what Boost.JSON refuses (bad
// UTF-8, lone surrogates, NaN, comments) also what it lets through and two
// readers may understand differently: repeated keys, numbers that do not fit,
// NUL in a string.
#pragma once

#include <string_view>
#include <variant>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "actors/request/api_error.hpp"
#include "http/limits.hpp"

namespace troupe {

std::variant<boost::json::value, ApiError> parse_json(std::string_view text, const Limits& limits);
// The same for a body that must be an object.
std::variant<boost::json::object, ApiError> parse_json_object(std::string_view text, const Limits& limits);

}  // namespace troupe
