// SPDX-License-Identifier: Apache-2.0
// Test data outside the repository, model directories made on the spot, and
// what several test files of text/ share.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace troupe {

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

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path.string());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline nlohmann::json file_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(file_text(path));
}

inline std::filesystem::path fixture_dir() {
  return std::filesystem::path(TROUPE_SOURCE_DIR) / "tests" / "fixtures" / "text";
}

// A directory that goes with its owner.
class ModelDirectory {
 public:
  ModelDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-text-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ModelDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ModelDirectory(const ModelDirectory&) = delete;
  ModelDirectory& operator=(const ModelDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace troupe
