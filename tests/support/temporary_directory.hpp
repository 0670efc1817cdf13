// SPDX-License-Identifier: Apache-2.0
// Directories and files that are gone at the end of a test. In memory if they
// can be: what is tested syncs a lot.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe::test {

// There, and empty; it goes with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const std::filesystem::path memory = "/dev/shm";
    const bool has_memory = ::access(memory.c_str(), W_OK) == 0;
    const auto root = has_memory ? memory : std::filesystem::temp_directory_path();
    std::string name = (root / "troupe_test_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no directory " + name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // The path of the file.
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) throw std::runtime_error("cannot write " + name);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// In a directory of its own; not there yet unless it has a text.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  explicit TemporaryFile(std::string_view text) { directory_.write("file", text); }

  const std::filesystem::path& path() const { return path_; }

 private:
  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "file";
};

}  // namespace troupe::test

namespace troupe {
using test::TemporaryDirectory;
using test::TemporaryFile;
}  // namespace troupe
