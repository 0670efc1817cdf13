// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/atomic_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::loadgen {

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
  temporary_ += ".tmp" + std::to_string(getpid());
  std::error_code error;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
  if (error)
    throw std::runtime_error("cannot make the directory of " + path_.string() + ": " + error.message());
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) fail();
}

AtomicFile::~AtomicFile() {
  if (is_committed_) return;
  stream_.close();
  std::error_code ignored;  // it may never have been made
  std::filesystem::remove(temporary_, ignored);
}

void AtomicFile::write(std::string_view bytes) {
  if (!stream_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) fail();
}

void AtomicFile::commit() {
  stream_.close();
  if (!stream_) fail();
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) throw std::runtime_error("cannot write " + path_.string() + ": " + error.message());
  is_committed_ = true;
}

void AtomicFile::fail() const {
  throw std::runtime_error("cannot write " + path_.string() + ": " + std::strerror(errno));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace troupe::loadgen
