// SPDX-License-Identifier: Apache-2.0
#include "app/state.hpp"

#include <exception>
#include <stdexcept>
#include <string>

#include "app/options/configuration_error.hpp"
#include "store/conversation_file.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

std::shared_ptr<const StateDirectory> open_directory(const std::filesystem::path& path) {
  auto directory = std::make_shared<const StateDirectory>(path);
  check_conversation_file_version(*directory);
  return directory;
}

std::shared_ptr<const StateDirectory> nothing_kept(const std::exception& error) {
  log(LogLevel::kWarning, "nothing is kept beyond this process", {{"reason", error.what()}});
  return nullptr;
}

}  // namespace

std::shared_ptr<const StateDirectory> open_state_directory(const Options& options) {
  if (options.store_directory == "none" || options.store_directory.empty()) return nullptr;
  const bool is_default = options.store_directory == "default";
  const std::string named = "--store-directory " + options.store_directory + ": ";
  try {
    if (!is_default) return open_directory(options.store_directory);
    const auto path = default_state_directory();
    if (!path) throw std::runtime_error("neither XDG_STATE_HOME nor HOME is an absolute path");
    return open_directory(*path);
  } catch (const StateDirectoryInUse& error) {
    // Whoever has it may end: no wrong configuration.
    if (!is_default) throw std::runtime_error(named + error.what());
    return nothing_kept(error);
  } catch (const std::exception& error) {
    if (!is_default) throw ConfigurationError(named + error.what());
    return nothing_kept(error);
  }
}

Options with_opened_directory(Options options, const StateDirectory* directory) {
  options.store_directory = directory != nullptr ? directory->path().string() : "none";
  return options;
}

}  // namespace troupe
