// SPDX-License-Identifier: Apache-2.0
// Thrown where the configuration asks for what can't be had: a value out of range, a file that
// is missing; not for what passes by itself, as a port in use. Its text names the option. The
// process ends with status kConfigurationStatus then, and a service manager need not start it
// again.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace troupe {

inline constexpr int kConfigurationStatus = 78;  // sysexits: EX_CONFIG

class ConfigurationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns what `make` gives; blames this option for what it throws.
template <typename Make>
auto from_option(const std::string& option, Make make) {
  try {
    return make();
  } catch (const std::exception& error) {
    throw ConfigurationError(option + ": " + error.what());
  }
}

}  // namespace troupe
