// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/command_table.hpp"

#include <doctest/doctest.h>

using namespace troupe::loadgen;

TEST_CASE("loadgen: help and version are no errors, nothing or an unknown command is") {
  CHECK(run_command_line({"--help"}) == kSuccess);
  CHECK(run_command_line({"--version"}) == kSuccess);
  CHECK(run_command_line({}) == kUsageError);
  CHECK(run_command_line({"nonsense"}) == kUsageError);
}
