// SPDX-License-Identifier: Apache-2.0
// The tools of a request as far as reading calls needs them: their names, and which
// arguments are strings, since tagged formats write those without quotes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace troupe {

class ToolSchemas {
 public:
  enum class Kind : std::uint8_t { kUnknown, kString, kOther };

  ToolSchemas() = default;
  // A JSON array of {"type": "function", "function": {…}}; whatever else is no tool.
  explicit ToolSchemas(std::string_view tools);

  bool has(const std::string& function) const { return functions_.contains(function); }
  Kind kind_of(const std::string& function, const std::string& argument) const;

 private:
  std::map<std::string, std::map<std::string, Kind>> functions_;
};

}  // namespace troupe
