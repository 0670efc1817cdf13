// SPDX-License-Identifier: Apache-2.0
// The filters of chat templates that look at each element of a list.
#pragma once

#include "text/jinja/template_builtins.hpp"

namespace troupe::jinja {

// True if an argument is given and true.
bool flag(const Arguments& arguments, std::size_t position, std::string_view name);

// The elements for which a test holds or not, on them or on their attribute.
Value selected(const Value& value, const Arguments& arguments, Budget& budget);
Value rejected(const Value& value, const Arguments& arguments, Budget& budget);
Value selected_by_attribute(const Value& value, const Arguments& arguments, Budget& budget);
Value rejected_by_attribute(const Value& value, const Arguments& arguments, Budget& budget);
Value mapped(const Value& value, const Arguments& arguments, Budget& budget);
Value sorted_list(const Value& value, const Arguments& arguments, Budget& budget);
Value sorted_dict(const Value& value, const Arguments& arguments, Budget& budget);
Value without_repetitions(const Value& value, const Arguments& arguments, Budget& budget);
Value greatest(const Value& value, const Arguments& arguments, Budget& budget);
Value smallest(const Value& value, const Arguments& arguments, Budget& budget);
Value joined(const Value& value, const Arguments& arguments, Budget& budget);
Value summed(const Value& value, const Arguments& arguments, Budget& budget);

}  // namespace troupe::jinja
