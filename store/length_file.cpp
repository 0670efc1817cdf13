// SPDX-License-Identifier: Apache-2.0
#include "store/length_file.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 20U;

class OpenFile {
 public:
  OpenFile(int directory, const std::string& name, int flags)
      : descriptor_(::openat(directory, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// 0, or what errno said.
int write_whole(int directory, const std::string& name, std::string_view text) {
  const OpenFile file(directory, name, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.get() < 0) return errno;
  while (!text.empty()) {
    const auto count = ::write(file.get(), text.data(), text.size());
    if (count < 0 && errno != EINTR) return errno;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return ::fsync(file.get()) == 0 ? 0 : errno;
}

}  // namespace

std::string length_file_name(std::string_view model) {
  std::uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a
  for (const char byte : model) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "lengths-%016llx.txt", static_cast<unsigned long long>(hash));
  return name.data();
}

std::optional<std::string> read_length_file(const StateDirectory& directory, std::string_view model) {
  const OpenFile file(directory.descriptor(), length_file_name(model), O_RDONLY);
  struct stat status = {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string text;
  std::array<char, 16384> part{};
  while (text.size() <= kMostBytes) {
    const auto count = ::read(file.get(), part.data(), part.size());
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) return std::nullopt;
    if (count > 0) text.append(part.data(), static_cast<std::size_t>(count));
  }
  return std::nullopt;
}

std::optional<std::string> write_length_file(const StateDirectory& directory, std::string_view model,
                                             std::string_view text) {
  const std::string name = length_file_name(model);
  const std::string half_written = name + ".new";
  int problem = write_whole(directory.descriptor(), half_written, text);
  if (problem == 0 &&
      ::renameat(directory.descriptor(), half_written.c_str(), directory.descriptor(), name.c_str()) != 0)
    problem = errno;
  if (problem == 0) return std::nullopt;
  ::unlinkat(directory.descriptor(), half_written.c_str(), 0);
  return std::strerror(problem);
}

}  // namespace troupe
