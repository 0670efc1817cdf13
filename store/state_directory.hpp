// SPDX-License-Identifier: Apache-2.0
// The directory where a server keeps what has to outlive it: conversations, and
// KV pages. Opened once and then reached through a descriptor, so that no
// process can put another directory in its place. One process at a time has it: a
// second server that finds it in use goes without.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>

namespace troupe {

// Another process has it now.
class StateDirectoryInUse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class StateDirectory {
 public:
  // Opens it, or creates it and what is above it, readable by its owner only.
  // Throws std::runtime_error with path and reason: not a directory, a symbolic
  // link, another user's, others may write into it, read-only; StateDirectoryInUse.
  // Warns if others may look into it: its files are for the owner only.
  explicit StateDirectory(const std::filesystem::path& path);
  // To look at what is there: nothing is created or written, and no server that starts
  // meanwhile is kept from it. Throws as above.
  static StateDirectory to_look_at(const std::filesystem::path& path);
  ~StateDirectory();
  StateDirectory(const StateDirectory&) = delete;
  StateDirectory& operator=(const StateDirectory&) = delete;

  // For openat(), with O_NOFOLLOW and names of our own making. Any thread; valid
  // as long as this object.
  int descriptor() const { return descriptor_; }
  // Absolute and without symbolic links, for libraries that want a path.
  const std::filesystem::path& path() const { return path_; }

 private:
  enum class Purpose : std::uint8_t { kKeep, kLook };
  StateDirectory(const std::filesystem::path& path, Purpose purpose);

  int descriptor_ = -1;
  std::filesystem::path path_;
};

// $XDG_STATE_HOME/troupe, else $HOME/.local/state/troupe; nullopt where neither
// variable is an absolute path.
std::optional<std::filesystem::path> default_state_directory();

}  // namespace troupe
