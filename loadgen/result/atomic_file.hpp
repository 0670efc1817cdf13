// SPDX-License-Identifier: Apache-2.0
// A file that is there whole or not at all: it is written under another name
// beside its place and renamed when it is complete.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace troupe::loadgen {

class AtomicFile {
 public:
  // Makes the directory if need be. Throws std::runtime_error with path and
  // cause, as do write and commit.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();  // without commit, no trace is left and what was there stays
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::ofstream stream_;
  bool is_committed_ = false;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

}  // namespace troupe::loadgen
