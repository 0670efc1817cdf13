// SPDX-License-Identifier: Apache-2.0
// A file of ours in the state directory: its descriptor, and reads and writes that go on
// where the system stopped halfway.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

// Owns a descriptor; negative: none.
class PlainFile {
 public:
  explicit PlainFile(int descriptor = -1) : descriptor_(descriptor) {}
  ~PlainFile();
  PlainFile(PlainFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  PlainFile& operator=(PlainFile&& other) noexcept;
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// Its bytes; nullopt: it is no plain file, or another user's.
std::optional<std::uint64_t> plain_size(int file);
// At the file's position. 0, or the error (errno).
int write_all(int file, std::string_view bytes);
// At this byte. 0, or the error.
int write_all_at(int file, std::uint64_t place, std::string_view bytes);
// Bytes [place, place + size), fewer at the file's end; nullopt: they can't be read.
std::optional<std::string> read_all_at(int file, std::uint64_t place, std::uint64_t size);

}  // namespace troupe
