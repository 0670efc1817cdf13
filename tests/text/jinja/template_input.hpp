// SPDX-License-Identifier: Apache-2.0
// JSON test data as input of a chat template.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "text/chat_template.hpp"

namespace troupe {

inline TemplateValue template_value(const nlohmann::ordered_json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return TemplateValue::input(json.get<std::string>());
  if (json.is_array()) {
    TemplateValue::Array array;
    for (const auto& element : json) array.push_back(template_value(element));
    return array;
  }
  TemplateValue::Object object;
  for (const auto& [name, element] : json.items()) {
    object.emplace_back(name, template_value(element));
  }
  return object;
}

inline TemplateValue::Object template_object(const nlohmann::ordered_json& json) {
  return std::get<TemplateValue::Object>(template_value(json).variant());
}

struct Rendered {
  std::string text;
  bool is_error = false;  // then the text is the complaint
};

inline Rendered joined(const std::variant<std::vector<TemplatePiece>, TemplateError>& result) {
  if (const auto* error = std::get_if<TemplateError>(&result)) return {error->message, true};
  Rendered rendered;
  for (const TemplatePiece& piece : std::get<0>(result)) rendered.text += piece.text;
  return rendered;
}

}  // namespace troupe
