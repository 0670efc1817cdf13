// SPDX-License-Identifier: Apache-2.0
// All bytes of a file.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace troupe::test {

// Throws std::runtime_error if it can't be read.
inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": can't be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace troupe::test
