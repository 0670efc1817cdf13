// SPDX-License-Identifier: Apache-2.0
// One line of what `troupe doctor` says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

// kWarning: the server runs, but slower or with less than it could. kProblem: it does not start.
enum class Grade : std::uint8_t { kOk, kWarning, kProblem };

struct Finding {
  Grade grade = Grade::kOk;
  std::string about = {};   // "memory"
  std::string text = {};    // found, or wrong
  std::string advice = {};  // to be done; empty: nothing

  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

}  // namespace troupe
