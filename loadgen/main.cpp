// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "loadgen/commands/command_table.hpp"

int main(int argc, char** argv) {
  return troupe::loadgen::run_command_line(std::vector<std::string>(argv + 1, argv + argc));
}
