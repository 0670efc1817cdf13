// SPDX-License-Identifier: Apache-2.0
// Test data outside the repository, and what several test files of text/ share.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

using test::file_text;

inline std::filesystem::path data_dir() {
  if (const char* dir = std::getenv("TROUPE_DATA")) return dir;
  return std::filesystem::path(TROUPE_SOURCE_DIR) / ".." / "shared" / "data";
}

// For tests that need data which may not be there: says so, and they return.
inline bool is_data_missing(const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) return false;
  MESSAGE("SKIPPED: no test data at " << path.string() << " (set TROUPE_DATA)");
  return true;
}

inline nlohmann::json file_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(file_text(path));
}

inline std::unique_ptr<Tokenizer> load_json(const nlohmann::json& tokenizer) {
  const TemporaryDirectory directory;
  directory.write("tokenizer.json", tokenizer.dump());
  return load_tokenizer(directory.path());
}

inline std::filesystem::path fixture_dir() {
  return std::filesystem::path(TROUPE_SOURCE_DIR) / "tests" / "fixtures" / "text";
}

}  // namespace troupe
