// SPDX-License-Identifier: Apache-2.0
// Files of the sources that a test reads. A program that was carried to another machine (scripts/gpu-check)
// finds no sources where it was built; there it runs at the root of its own copy.
#pragma once

#include <filesystem>

namespace troupe::test {

// `relative` in the sources the program was built from or, if it is not there, in the current directory.
inline std::filesystem::path source_file(const std::filesystem::path& relative,
                                         const std::filesystem::path& built_from = TROUPE_SOURCE_DIR) {
  const auto file = built_from / relative;
  return std::filesystem::exists(file) ? file : std::filesystem::current_path() / relative;
}

}  // namespace troupe::test
