// SPDX-License-Identifier: Apache-2.0
#include "telemetry/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace troupe {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw std::runtime_error(path.string() + ": " + why);
}

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace

RegularFile open_regular_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) refuse(path, error_text(errno));
  RegularFile file(::fdopen(descriptor, "rb"));
  if (!file) {
    const int error = errno;
    ::close(descriptor);
    refuse(path, error_text(error));
  }
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) refuse(path, error_text(errno));
  if (S_ISDIR(status.st_mode)) refuse(path, error_text(EISDIR));
  if (!S_ISREG(status.st_mode))
    refuse(path, "expected a regular file, which can be read again; no pipe and no device");
  return file;
}

std::string read_regular_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const RegularFile file = open_regular_file(path);
  std::string text;
  std::array<char, 4096> part{};
  errno = 0;
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), file.get())) {
    text.append(part.data(), size);
    if (text.size() > max_bytes) refuse(path, "expected at most " + std::to_string(max_bytes) + " bytes");
  }
  if (std::ferror(file.get()) != 0) refuse(path, error_text(errno));
  return text;
}

}  // namespace troupe
