// SPDX-License-Identifier: Apache-2.0
// Source of a chat template to a tree.
#pragma once

#include <string>

#include "text/jinja/syntax/template_program.hpp"

namespace troupe::jinja {

// Throws std::runtime_error with the line: what is malformed, unknown or nested
// deeper than 64.
TemplateProgram parse_template(const std::string& source);

}  // namespace troupe::jinja
