// SPDX-License-Identifier: Apache-2.0
// The separators of JSON: a comma and a colon, each with the white space behind it.
#pragma once

#include <string>

namespace troupe {

struct JsonSeparators {
  std::string comma = ", ", colon = ": ";
  bool operator==(const JsonSeparators&) const = default;
};

inline JsonSeparators compact_separators() { return {.comma = ",", .colon = ":"}; }

}  // namespace troupe
