// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/run_result.hpp"

namespace troupe::loadgen {

std::string_view setting(const RunResult& result, std::string_view name) {
  for (const auto& [key, value] : result.settings) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace troupe::loadgen
