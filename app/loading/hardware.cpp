// SPDX-License-Identifier: Apache-2.0
#include "app/loading/hardware.hpp"

#include <fstream>

namespace troupe {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace troupe
