// SPDX-License-Identifier: Apache-2.0
// Readers of traces' JSON beyond the checked members of
// loadgen/json_fields.hpp. All throw std::runtime_error "PLACE: ...".
#pragma once

#include <cstdint>
#include <string>

#include "loadgen/json_fields.hpp"

namespace troupe::loadgen {

nlohmann::json parse_json(const std::string& text, const std::string& place);

// A number of tokens: a member that is at most a thousand million.
std::uint32_t count_in(const JsonFields& fields, const char* key);
// A member that may be missing.
std::string text_or_empty(const JsonFields& fields, const char* key);
// A value that stands in a list, at least 0.
std::uint64_t whole_number(const nlohmann::json& value, const std::string& place);

}  // namespace troupe::loadgen
