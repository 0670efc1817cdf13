// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {
namespace {

std::int64_t nanoseconds(const struct timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string identity_of(const struct stat& about) {
  std::string identity;
  for (const std::int64_t number :
       {static_cast<std::int64_t>(about.st_dev), static_cast<std::int64_t>(about.st_ino),
        static_cast<std::int64_t>(about.st_size), nanoseconds(about.st_mtim), nanoseconds(about.st_ctim)})
    identity += std::to_string(number) + " ";
  return identity;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    const int reason = errno;
    throw std::runtime_error(path.string() + ": " +
                             (reason == ENOENT ? "is missing" : std::strerror(reason)));
  }
  map();
}

MappedFile::MappedFile(int descriptor, std::filesystem::path path)
    : path_(std::move(path)), descriptor_(descriptor) {
  map();
}

void MappedFile::map() {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close();
    throw std::runtime_error(path_.string() + ": is not a regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  modified_nanoseconds_ = nanoseconds(status.st_mtim);
  identity_ = identity_of(status);
  if (size_ == 0) return;
  void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (mapping == MAP_FAILED) {
    const int reason = errno;
    close();
    throw std::runtime_error(path_.string() + ": cannot be mapped: " + std::strerror(reason));
  }
  data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::~MappedFile() { close(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      identity_(std::move(other.identity_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      modified_nanoseconds_(other.modified_nanoseconds_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  identity_ = std::move(other.identity_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  modified_nanoseconds_ = other.modified_nanoseconds_;
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

bool MappedFile::is_unchanged() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 && static_cast<std::size_t>(status.st_size) == size_ &&
         nanoseconds(status.st_mtim) == modified_nanoseconds_;
}

std::string file_identity(const std::filesystem::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0)
    throw std::runtime_error(path.string() + ": " + std::strerror(errno));
  return identity_of(about) + std::filesystem::absolute(path).string();
}

void MappedFile::close() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
  data_ = nullptr;
  size_ = 0;
  descriptor_ = -1;
}

}  // namespace troupe
