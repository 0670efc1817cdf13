// SPDX-License-Identifier: Apache-2.0
// The arguments of a call of a macro, by the variables that they become in its body.
#pragma once

#include <optional>
#include <vector>

#include "text/jinja/syntax/template_program.hpp"
#include "text/jinja/template_builtins.hpp"
#include "text/jinja/template_scopes.hpp"

namespace troupe::jinja {

struct MacroArguments {
  std::vector<std::optional<Value>> parameters;  // in their order; nullopt: not given
  Variables others;                              // caller, varargs, kwargs: those that the body reads
};

// Throws EvaluationError where the macro does not take them.
MacroArguments arguments_by_name(const Macro& macro, Arguments arguments);

}  // namespace troupe::jinja
