// SPDX-License-Identifier: Apache-2.0
// JSON inside chat templates: the tojson filter, spelled as Python's json.dumps
// spells it, and its inverse.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "text/jinja/template_runtime.hpp"

namespace troupe::jinja {

struct JsonStyle {
  std::optional<std::size_t> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sorts_keys = false;
  bool is_ascii = false;  // escape everything else
};

MarkedString to_json(const Value& value, const JsonStyle& style, Budget& budget);
Value from_json(const MarkedString& text, Budget& budget);

}  // namespace troupe::jinja
