// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/toml/toml_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace troupe::loadgen {

toml::table parse_toml_file(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream || std::filesystem::is_directory(file))
    throw std::runtime_error(file.string() + ": can't be read: " + std::strerror(stream ? EISDIR : errno));
  try {
    return toml::parse(stream, file.string());
  } catch (const toml::parse_error& error) {
    throw std::runtime_error(file.string() + ":" + std::to_string(error.source().begin.line) + ": " +
                             std::string(error.description()));
  }
}

}  // namespace troupe::loadgen
