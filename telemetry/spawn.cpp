// SPDX-License-Identifier: Apache-2.0
#include "telemetry/spawn.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <string_view>

namespace troupe {
namespace {

// The arguments of posix_spawn that need freeing.
class SpawnOptions {
 public:
  explicit SpawnOptions(const SpawnCommand& command) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    add_output(command.output_file);
    const bool has_descriptor = command.descriptor >= 0;
    if (has_descriptor) ::posix_spawn_file_actions_adddup2(&files_, command.descriptor, kSpawnedDescriptor);
    // Clients' sockets, above all: not all libraries close theirs on exec.
    ::posix_spawn_file_actions_addclosefrom_np(&files_, kSpawnedDescriptor + (has_descriptor ? 1 : 0));
    set_attributes();
  }
  ~SpawnOptions() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  void add_output(const std::string& file) {
    if (file.empty()) {
      ::posix_spawn_file_actions_adddup2(&files_, STDERR_FILENO, STDOUT_FILENO);
      return;
    }
    ::posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, file.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                       0644);
    ::posix_spawn_file_actions_adddup2(&files_, STDOUT_FILENO, STDERR_FILENO);
  }

  void set_attributes() {
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }

  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!more.contains(std::string(text.substr(0, text.find('='))))) all.emplace_back(text);
  }
  for (const auto& [name, value] : more) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

int spawn(const SpawnCommand& command, pid_t& pid) {
  const SpawnOptions options(command);
  auto arguments = command.arguments;
  auto environment = environment_with(command.environment);
  return ::posix_spawnp(&pid, command.program.c_str(), options.files(), options.attributes(),
                        pointers_to(arguments).data(), pointers_to(environment).data());
}

}  // namespace troupe
