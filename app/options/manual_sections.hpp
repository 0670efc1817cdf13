// SPDX-License-Identifier: Apache-2.0
// The parts of troupe's man page that no option tells of.
#pragma once

#include <vector>

#include "manual/program_manual.hpp"

namespace troupe {

std::vector<ManualSection> manual_sections();

}  // namespace troupe
