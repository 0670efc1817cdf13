// SPDX-License-Identifier: Apache-2.0
// Reads fields of a JSON object that may hold anything, and says what is wrong
// by name and place. For the .cpp files that read results, traces and profiles.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace troupe::loadgen {

class JsonFields {
 public:
  // Both must outlive this. Throws std::runtime_error, as all of its functions do.
  JsonFields(const nlohmann::json& object, const std::string& where) : object_(object), where_(where) {
    if (!object.is_object())
      throw std::runtime_error(where + ": expected an object, got " + object.type_name());
  }

  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

  const nlohmann::json& array(const char* key) const {
    return expect(key, "a list", [](const auto& value) { return value.is_array(); });
  }

  bool boolean(const char* key) const {
    return expect(key, "true or false", [](const auto& value) { return value.is_boolean(); })
        .template get<bool>();
  }

  std::string text(const char* key) const {
    return expect(key, "a text", [](const auto& value) { return value.is_string(); })
        .template get<std::string>();
  }

  // A whole number from 0 to `maximum`.
  std::uint64_t number(const char* key, std::uint64_t maximum) const {
    const auto is_valid = [&](const auto& value) {
      return value.is_number_unsigned() && value.template get<std::uint64_t>() <= maximum;
    };
    return expect(key, "a whole number from 0 to " + std::to_string(maximum), is_valid)
        .template get<std::uint64_t>();
  }

  // Finite and not negative.
  double real(const char* key) const {
    const auto is_valid = [](const auto& value) {
      return value.is_number() && std::isfinite(value.template get<double>()) &&
             value.template get<double>() >= 0;
    };
    return expect(key, "a number from 0", is_valid).template get<double>();
  }

  const std::string& where() const { return where_; }

 private:
  template <class IsValid>
  const nlohmann::json& expect(const char* key, const std::string& expected, IsValid is_valid) const {
    const auto found = object_.find(key);
    if (found == object_.end()) throw std::runtime_error(where_ + ": '" + key + "' is missing");
    if (!is_valid(*found)) {
      auto came = found->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
      if (came.size() > 40) came = came.substr(0, 40) + "…";
      throw std::runtime_error(where_ + ": '" + key + "': expected " + expected + ", got " + came);
    }
    return *found;
  }

  const nlohmann::json& object_;
  const std::string& where_;
};

}  // namespace troupe::loadgen
