// SPDX-License-Identifier: Apache-2.0
// A regular file mapped read-only. The mapping is as long as the file was when
// it was opened: a program that cuts the file meanwhile makes reads fault, so readers
// copy what they need at load, check is_unchanged() and drop the mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace troupe {

class MappedFile {
 public:
  // Throws std::runtime_error that names the file: missing, not a regular
  // file, not readable.
  explicit MappedFile(const std::filesystem::path& path);
  // Takes the descriptor of an open file. path: for texts. Throws as above.
  MappedFile(int descriptor, std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Device, inode, size and times of the file as it was opened, in one line: see file_identity().
  const std::string& identity() const { return identity_; }

  // True if the file still has the size and modification time it was opened with.
  bool is_unchanged() const;

 private:
  void close() noexcept;

  void map();

  std::filesystem::path path_;
  std::string identity_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::int64_t modified_nanoseconds_ = 0;
  int descriptor_ = -1;
};

// Path, device, inode, size and times of a file, in one line: while they are the same, so are its
// contents. Unlike the time of the contents, that of the inode can't be set back. Throws std::runtime_error.
std::string file_identity(const std::filesystem::path& path);

}  // namespace troupe
