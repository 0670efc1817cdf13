// SPDX-License-Identifier: Apache-2.0
// Python's methods of strings, for chat templates.
#pragma once

#include <string>

#include "text/jinja/template_builtins.hpp"

namespace troupe::jinja {

Value call_string_method(const MarkedString& string, const std::string& name, const Arguments& arguments,
                         Budget& budget);

// Complains that a value has no such attribute or method.
[[noreturn]] void fail_no_attribute(const Value& value, const std::string& name);

}  // namespace troupe::jinja
