// SPDX-License-Identifier: Apache-2.0
// What a kernel did that no GPU promises to survive. Thrown out of the launch.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace troupe::simt {

struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// "rms_norm.cu:42"
std::string text_of(const std::source_location& where);

}  // namespace troupe::simt
