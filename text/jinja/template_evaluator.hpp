// SPDX-License-Identifier: Apache-2.0
// Runs a parsed chat template.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "text/jinja/syntax/template_program.hpp"
#include "text/jinja/template_runtime.hpp"
#include "text/jinja/template_scopes.hpp"

namespace troupe::jinja {

// Throws EvaluationError. `program` must outlive every value made here. buffer: empty, its memory
// becomes the result's.
MarkedString evaluate(const TemplateProgram& program, Variables variables,
                      std::chrono::system_clock::time_point now, std::string buffer, Budget& budget);

}  // namespace troupe::jinja
