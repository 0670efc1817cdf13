// SPDX-License-Identifier: Apache-2.0
#include "text/answer/tool_schemas.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe {
namespace {

using Json = nlohmann::json;

ToolSchemas::Kind kind_of_type(const Json& type) {
  if (type.is_string()) return type == "string" ? ToolSchemas::Kind::kString : ToolSchemas::Kind::kOther;
  if (!type.is_array()) return ToolSchemas::Kind::kUnknown;
  // A string or null, say: "null" may be either.
  const bool has_string = std::find(type.begin(), type.end(), "string") != type.end();
  return has_string ? ToolSchemas::Kind::kUnknown : ToolSchemas::Kind::kOther;
}

ToolSchemas::Kind kind_of_schema(const Json& schema) {
  if (!schema.is_object()) return ToolSchemas::Kind::kUnknown;
  if (schema.contains("type")) return kind_of_type(schema["type"]);
  if (!schema.contains("enum") || !schema["enum"].is_array()) return ToolSchemas::Kind::kUnknown;
  const auto& values = schema["enum"];
  const bool are_strings =
      std::all_of(values.begin(), values.end(), [](const Json& value) { return value.is_string(); });
  return are_strings ? ToolSchemas::Kind::kString : ToolSchemas::Kind::kUnknown;
}

// Null where there is no such member.
const Json& member(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

}  // namespace

ToolSchemas::ToolSchemas(std::string_view tools) {
  const auto list = Json::parse(tools, nullptr, false);
  if (!list.is_array()) return;
  for (const auto& tool : list) {
    const auto& function = member(tool, "function");
    const auto& name = member(function, "name");
    if (!name.is_string()) continue;
    auto& arguments = functions_[name.get<std::string>()];
    const auto& properties = member(member(function, "parameters"), "properties");
    if (!properties.is_object()) continue;
    for (const auto& [key, schema] : properties.items()) arguments[key] = kind_of_schema(schema);
  }
}

ToolSchemas::Kind ToolSchemas::kind_of(const std::string& function, const std::string& argument) const {
  const auto arguments = functions_.find(function);
  if (arguments == functions_.end()) return Kind::kUnknown;
  const auto kind = arguments->second.find(argument);
  return kind == arguments->second.end() ? Kind::kUnknown : kind->second;
}

}  // namespace troupe
