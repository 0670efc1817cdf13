// SPDX-License-Identifier: Apache-2.0
// Runs a parsed chat template.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "text/template_program.hpp"
#include "text/template_runtime.hpp"

namespace troupe::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

// Throws EvaluationError. `program` must outlive every value made here.
MarkedString evaluate(const TemplateProgram& program, Variables variables,
                      std::chrono::system_clock::time_point now, Budget& budget);

}  // namespace troupe::jinja
