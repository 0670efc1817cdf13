// SPDX-License-Identifier: Apache-2.0
#include "store/state_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr mode_t kOwnerOnly = 0700;
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;
constexpr mode_t kOthersMayRead = S_IRGRP | S_IROTH | S_IXGRP | S_IXOTH;
constexpr std::chrono::milliseconds kLongestLook{1000};
constexpr std::chrono::milliseconds kBetweenAttempts{1};

std::string complaint(const std::filesystem::path& path, const std::string& why) {
  return "the state directory " + path.string() + " can't be used: " + why;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw std::runtime_error(complaint(path, why));
}

std::string error_text(int error) { return std::generic_category().message(error); }

void create(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) refuse(path, "creating " + path.parent_path().string() + ": " + error.message());
  if (::mkdir(path.c_str(), kOwnerOnly) != 0 && errno != EEXIST) refuse(path, error_text(errno));
}

int open_directory(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  // A symbolic link is "not a directory" to open(), too.
  if (errno == ENOTDIR || errno == ELOOP) refuse(path, "it must be a directory, and no symbolic link");
  refuse(path, error_text(errno));
}

void check_owner(const std::filesystem::path& path, int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) refuse(path, error_text(errno));
  if (status.st_uid != ::geteuid())
    refuse(path, "it belongs to user " + std::to_string(status.st_uid) + ", not to " +
                     std::to_string(::geteuid()) + " who runs this");
  if ((status.st_mode & kOthersMayWrite) != 0) refuse(path, "others may write into it; chmod 700 it");
  if ((status.st_mode & kOthersMayRead) != 0)
    log(LogLevel::kWarning,
        "others may look into the state directory, though not into its files; chmod 700 it",
        {{"directory", path.string()}});
}

// By writing: permissions alone do not tell. A disk that is full may have room again.
void check_writable(const std::filesystem::path& path, int descriptor) {
  constexpr const char* kProbe = "write-probe";
  const int file =
      ::openat(descriptor, kProbe, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
  if (file < 0 && errno != ENOSPC && errno != EDQUOT)
    refuse(path, "it can't be written into: " + error_text(errno));
  if (file < 0) return;
  ::close(file);
  ::unlinkat(descriptor, kProbe, 0);
}

// What permissions tell, without a trace.
void check_may_write(const std::filesystem::path& path, int descriptor) {
  if (::faccessat(descriptor, ".", W_OK | X_OK, AT_EACCESS) != 0)
    refuse(path, "it can't be written into: " + error_text(errno));
}

[[noreturn]] void refuse_lock(const std::filesystem::path& path, int error) {
  if (error == EWOULDBLOCK) throw StateDirectoryInUse(complaint(path, "another troupe is using it"));
  refuse(path, error_text(error));
}

// Nobody keeps it. Locked for an instant only: no server that starts meanwhile is kept from it.
void check_unlocked(const std::filesystem::path& path, int descriptor) {
  if (::flock(descriptor, LOCK_SH | LOCK_NB) != 0) refuse_lock(path, errno);
  ::flock(descriptor, LOCK_UN);
}

// Ours until the descriptor is closed. A lock that can be shared is of somebody who looks, and soon gone.
void lock(const std::filesystem::path& path, int descriptor) {
  const auto end = std::chrono::steady_clock::now() + kLongestLook;
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error != EWOULDBLOCK || std::chrono::steady_clock::now() >= end) refuse_lock(path, error);
    check_unlocked(path, descriptor);
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

}  // namespace

StateDirectory::StateDirectory(const std::filesystem::path& path) : StateDirectory(path, Purpose::kKeep) {}

StateDirectory StateDirectory::to_look_at(const std::filesystem::path& path) {
  return StateDirectory(path, Purpose::kLook);
}

StateDirectory::StateDirectory(const std::filesystem::path& path, Purpose purpose) {
  if (path.empty()) refuse(path, "its name is empty");
  // A slash at the end would make the last part follow a link.
  auto plain = std::filesystem::absolute(path).lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  if (purpose == Purpose::kKeep) create(plain);
  descriptor_ = open_directory(plain);
  try {
    check_owner(plain, descriptor_);
    if (purpose == Purpose::kKeep) {
      lock(plain, descriptor_);
      check_writable(plain, descriptor_);
    } else {
      check_unlocked(plain, descriptor_);
      check_may_write(plain, descriptor_);
    }
    path_ = std::filesystem::canonical(plain);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

StateDirectory::~StateDirectory() { ::close(descriptor_); }

std::optional<std::filesystem::path> default_state_directory() {
  const auto from = [](const char* variable) -> std::optional<std::filesystem::path> {
    const char* text = std::getenv(variable);
    if (text == nullptr || text[0] != '/') return std::nullopt;
    return text;
  };
  if (const auto state = from("XDG_STATE_HOME")) return *state / "troupe";
  if (const auto home = from("HOME")) return *home / ".local" / "state" / "troupe";
  return std::nullopt;
}

}  // namespace troupe
