// SPDX-License-Identifier: Apache-2.0
// Where the shared test data lies: TROUPE_DATA, else ../shared/data beside the
// repository. Tests that need it skip visibly where it is absent.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

#include <doctest/doctest.h>

namespace troupe {

inline std::optional<std::filesystem::path> find_test_data(const char* name) {
  const char* root = std::getenv("TROUPE_DATA");
  const auto path = (root != nullptr ? std::filesystem::path(root)
                                     : std::filesystem::path(TROUPE_SOURCE_DIR) / ".." / "shared" / "data") /
                    name;
  if (std::filesystem::exists(path)) return path;
  MESSAGE("SKIPPED: no test data at " << path.string());
  return std::nullopt;
}

}  // namespace troupe
