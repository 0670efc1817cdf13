// SPDX-License-Identifier: Apache-2.0
#include "app/state.hpp"

#include <stdexcept>

#include "telemetry/log.hpp"

namespace troupe {

std::shared_ptr<const StateDirectory> open_state_directory(const Options& options) {
  if (options.store_directory == "none" || options.store_directory.empty()) return nullptr;
  try {
    if (options.store_directory != "default")
      return std::make_shared<StateDirectory>(options.store_directory);
    const auto path = default_state_directory();
    if (!path) throw std::runtime_error("neither XDG_STATE_HOME nor HOME is an absolute path");
    return std::make_shared<StateDirectory>(*path);
  } catch (const std::exception& error) {
    log(LogLevel::kWarning, "nothing is kept beyond this process", {{"reason", error.what()}});
    return nullptr;
  }
}

}  // namespace troupe
