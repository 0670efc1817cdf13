// SPDX-License-Identifier: Apache-2.0
// Thrown where the command line lacks what the command can't do without. The
// process ends with status kUsageStatus then.
#pragma once

#include <stdexcept>

namespace troupe {

inline constexpr int kUsageStatus = 64;  // sysexits: EX_USAGE

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace troupe
