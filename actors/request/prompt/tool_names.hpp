// SPDX-License-Identifier: Apache-2.0
// Tools as the Responses API names them. To a model every tool is a function with
// arguments; a client may have put it into a namespace, or have it take one text
// (a custom tool), which then is the argument "input".
#pragma once

#include <string>
#include <vector>

namespace troupe {

inline constexpr const char* kCustomInput = "input";

struct ToolName {
  std::string shown = {};       // the function's: in prompts, and in calls as the model writes them
  std::string name_space = {};  // empty: none
  std::string name = {};
  bool is_custom = false;
  bool operator==(const ToolName&) const = default;
};

// Only tools whose shown name does not say it all.
using ToolNames = std::vector<ToolName>;

// Unless the namespace ends with its own separator, as "mcp__files__" does.
inline std::string shown_name(const std::string& name_space, const std::string& name) {
  if (name_space.empty()) return name;
  return name_space + (name_space.back() == '_' ? "" : "__") + name;
}

}  // namespace troupe
