// SPDX-License-Identifier: Apache-2.0
// A program's page of section 1 of the manual, in the macros of man(7).
#pragma once

#include <string>

#include "manual/program_manual.hpp"

namespace troupe {

// An option that an earlier command has with the same words is only named.
std::string man_page(const ProgramManual& program);

}  // namespace troupe
