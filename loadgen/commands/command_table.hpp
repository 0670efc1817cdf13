// SPDX-License-Identifier: Apache-2.0
// The subcommands of troupe-loadgen by name. Each is a function of its own
// arguments, in a file of its own next to this one: add a line to the table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "manual/program_manual.hpp"

namespace troupe::loadgen {

// Exit status that a shell gets.
enum ExitStatus : int {
  kSuccess = 0,
  kTooManyErrors = 1,  // requests failed beyond what was allowed
  kUsageError = 2,     // a wrong command line or file; nothing was sent
  kServerUnreachable = 3,
};

struct Subcommand {
  std::string_view name;
  std::string_view summary;  // one line
  // Takes the arguments behind the name, gives the exit status. May throw std::exception: its text
  // is printed, the status is kUsageError.
  int (*run)(const std::vector<std::string>& arguments);
};

std::span<const Subcommand> command_table();

// All that the command line takes.
ProgramManual loadgen_manual();

// All arguments after the program's name: dispatches, prints help and version,
// hints at the nearest name of an unknown one. The exit status.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
