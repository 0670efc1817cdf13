// SPDX-License-Identifier: Apache-2.0
// True if a value obeys a JSON schema: a plain reading of the specification, for the keywords that grammars
// support, which shares nothing with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace troupe {

class SchemaValidator {
 public:
  using Json = nlohmann::ordered_json;
  explicit SchemaValidator(Json root) : root_(std::move(root)) {}

  bool obeys(const Json& value) const { return obeys(value, root_); }

 private:
  bool obeys(const Json& value, const Json& schema) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("$ref")) {
      const std::string target = schema["$ref"].get<std::string>().substr(1);
      if (!obeys(value, root_.at(Json::json_pointer(target)))) return false;
    }
    if (schema.contains("type") && !has_type(value, schema)) return false;
    if (schema.contains("const") && value != schema["const"]) return false;
    if (schema.contains("enum") && std::count(schema["enum"].begin(), schema["enum"].end(), value) == 0)
      return false;
    const auto number_obeying = [&](const char* keyword) {
      return std::count_if(schema[keyword].begin(), schema[keyword].end(),
                           [&](const Json& branch) { return obeys(value, branch); });
    };
    if (schema.contains("allOf") && number_obeying("allOf") != static_cast<long>(schema["allOf"].size()))
      return false;
    if (schema.contains("anyOf") && number_obeying("anyOf") == 0) return false;
    if (schema.contains("oneOf") && number_obeying("oneOf") != 1) return false;
    if (value.is_number()) return number_obeys(value, schema);
    if (value.is_string()) return string_obeys(value.get<std::string>(), schema);
    if (value.is_array()) return array_obeys(value, schema);
    return !value.is_object() || object_obeys(value, schema);
  }

  static bool has_type(const Json& value, const Json& schema) {
    const auto is = [&](const std::string& type) {
      if (type == "null") return value.is_null();
      if (type == "boolean") return value.is_boolean();
      if (type == "string") return value.is_string();
      if (type == "array") return value.is_array();
      if (type == "object") return value.is_object();
      if (type == "integer") return value.is_number_integer();
      return value.is_number();
    };
    if (value.is_null() && schema.value("nullable", false)) return true;
    const Json& type = schema["type"];
    if (type.is_string()) return is(type.get<std::string>());
    return std::any_of(type.begin(), type.end(), [&](const Json& one) { return is(one.get<std::string>()); });
  }

  static bool number_obeys(const Json& value, const Json& schema) {
    if (schema.contains("minimum") && value < schema["minimum"]) return false;
    if (schema.contains("maximum") && value > schema["maximum"]) return false;
    if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) return false;
    if (schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]) return false;
    if (!schema.contains("multipleOf")) return true;
    const double ratio = value.get<double>() / schema["multipleOf"].get<double>();
    return std::abs(ratio - std::round(ratio)) <= 1e-9 * std::max(1.0, std::abs(ratio));
  }

  // Patterns of the tests are of ASCII.
  static bool string_obeys(const std::string& value, const Json& schema) {
    const auto length = static_cast<std::size_t>(
        std::count_if(value.begin(), value.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    if (length < schema.value("minLength", std::size_t{0})) return false;
    if (schema.contains("maxLength") && length > schema["maxLength"]) return false;
    if (schema.contains("pattern") &&
        !std::regex_search(value, std::regex(schema["pattern"].get<std::string>())))
      return false;
    return !schema.contains("format") || has_format(value, schema["format"].get<std::string>());
  }

  static bool has_format(const std::string& value, const std::string& format) {
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
    char mark = 0;
    if (format == "date" || format == "date-time") {
      static constexpr int kDays[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
      if (std::sscanf(value.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &used) != 3 || used != 10)
        return false;
      if (month < 1 || month > 12 || day < 1 || day > kDays[month - 1]) return false;
      if (format == "date") return value.size() == 10;
      return value.at(10) == 'T' && has_format(value.substr(11), "time");
    }
    if (format == "time")
      return std::sscanf(value.c_str(), "%2d:%2d:%2d%n", &hour, &minute, &second, &used) == 3 && used == 8 &&
             hour < 24 && minute < 60 && second < 60 && value.size() > 8;
    if (format == "ipv4") {
      int parts[4] = {};
      return std::sscanf(value.c_str(), "%3d.%3d.%3d.%3d%c", &parts[0], &parts[1], &parts[2], &parts[3],
                         &mark) == 4 &&
             std::all_of(parts, parts + 4, [](int part) { return part >= 0 && part <= 255; });
    }
    if (format == "uuid")
      return std::regex_match(value, std::regex("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"));
    if (format == "email") return std::count(value.begin(), value.end(), '@') == 1;
    return true;
  }

  bool array_obeys(const Json& value, const Json& schema) const {
    if (value.size() < schema.value("minItems", std::size_t{0})) return false;
    if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
    const bool has_old_prefix = schema.contains("items") && schema["items"].is_array();
    const char* prefix = has_old_prefix ? "items" : "prefixItems";
    const std::size_t num_prefix = schema.contains(prefix) ? schema[prefix].size() : 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i < num_prefix ? !obeys(value[i], schema[prefix][i])
                         : !has_old_prefix && schema.contains("items") && !obeys(value[i], schema["items"]))
        return false;
    }
    return true;
  }

  bool object_obeys(const Json& value, const Json& schema) const {
    const Json none = Json::object();
    const Json& properties = schema.contains("properties") ? schema["properties"] : none;
    if (schema.contains("required"))
      for (const Json& name : schema["required"])
        if (!value.contains(name.get<std::string>())) return false;
    if (value.size() < schema.value("minProperties", std::size_t{0})) return false;
    if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) return false;
    for (const auto& [name, member] : value.items()) {
      if (properties.contains(name) && !obeys(member, properties[name])) return false;
      if (!properties.contains(name) && schema.contains("additionalProperties") &&
          !obeys(member, schema["additionalProperties"]))
        return false;
    }
    return true;
  }

  Json root_;
};

}  // namespace troupe
