// SPDX-License-Identifier: Apache-2.0
#include "gpu/kept_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace troupe {
namespace {

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

[[noreturn]] void fail_with_errno() { throw std::runtime_error(std::strerror(errno)); }

bool write_all(int descriptor, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    written += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

std::optional<std::string> read_kept_file(int directory, const std::string& name, std::size_t most_bytes) {
  const File file(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    fail_with_errno();
  }
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode))
    throw std::runtime_error("expected a regular file");
  std::string text(most_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno();
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  if (size > most_bytes)
    throw std::runtime_error("expected at most " + std::to_string(most_bytes) + " bytes, got more");
  text.resize(size);
  return text;
}

void replace_kept_file(int directory, const std::string& name, const std::string& text) {
  const std::string temporary = name + ".new";
  ::unlinkat(directory, temporary.c_str(), 0);  // left by a process that was killed
  const File file(
      ::openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) fail_with_errno();
  if (!write_all(file.get(), text) ||
      ::renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) {
    const int error = errno;
    ::unlinkat(directory, temporary.c_str(), 0);
    errno = error;
    fail_with_errno();
  }
}

}  // namespace troupe
