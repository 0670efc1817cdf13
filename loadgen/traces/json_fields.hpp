// SPDX-License-Identifier: Apache-2.0
// Members of JSON objects from files, checked: the message says which member of
// which line was expected to be what. Includes nlohmann's JSON: for .cpp files.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace troupe::loadgen {

// What is wrong with a member; readers catch it and add file and line.
struct JsonFieldError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws JsonFieldError if the text is no JSON object.
nlohmann::json parse_object(const std::string& text);

// Each throws JsonFieldError if the member is missing or something else.
double number_in(const nlohmann::json& object, const char* key);  // at least 0
std::uint32_t count_in(const nlohmann::json& object, const char* key);
std::uint64_t id_in(const nlohmann::json& object, const char* key);
std::string text_in(const nlohmann::json& object, const char* key);
const nlohmann::json& list_in(const nlohmann::json& object, const char* key);

// An element of a list of counts or ids; `key` is the list's.
std::uint64_t id_of(const nlohmann::json& value, const char* key);

}  // namespace troupe::loadgen
