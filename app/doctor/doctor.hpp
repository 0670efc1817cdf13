// SPDX-License-Identifier: Apache-2.0
// `troupe doctor`: what would keep `troupe serve` with the same options from working well
// on this machine, found by what serve itself asks before it serves.
#pragma once

#include <string>

#include "app/doctor/finding.hpp"
#include "app/options/command_line.hpp"

namespace troupe {

// Prints the findings. The exit status: 1 if one of them is a problem, else 0.
int run_doctor(const DoctorCommand& command);

// A line each, and one for its advice; or one JSON object.
std::string report_of(const Findings& findings, bool is_json);

}  // namespace troupe
