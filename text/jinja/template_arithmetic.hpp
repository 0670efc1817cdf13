// SPDX-License-Identifier: Apache-2.0
// Operators of chat templates on values, with Python's rules.
#pragma once

#include "text/jinja/syntax/template_program.hpp"
#include "text/jinja/template_runtime.hpp"

namespace troupe::jinja {

Value apply_binary(BinaryOperator op, const Value& left, const Value& right, Budget& budget);
Value apply_unary(UnaryOperator op, const Value& operand);
bool apply_comparison(ComparisonOperator op, const Value& left, const Value& right, Budget& budget);
// value[index]; undefined where there is no such element.
Value item_of(const Value& value, const Value& index, Budget& budget);
// value[begin:end:step]; undefined bounds are open.
Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step, Budget& budget);

}  // namespace troupe::jinja
