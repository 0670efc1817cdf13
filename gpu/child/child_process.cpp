// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/child_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

namespace troupe::child {
namespace {

// What posix_spawn wants to be told, freed at the end.
class SpawnOptions {
 public:
  explicit SpawnOptions(int socket) {
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files_, STDERR_FILENO, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files_, socket, kWorkerSocket);
    // Clients' sockets, above all: not all libraries close theirs on exec.
    ::posix_spawn_file_actions_addclosefrom_np(&files_, kWorkerSocket + 1);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    // Ctrl-C on a terminal is for the server alone.
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnOptions() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;

  // An error number, or 0.
  int spawn(pid_t& pid, Command& command) const {
    std::vector<char*> pointers;
    for (auto& argument : command.arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    return ::posix_spawn(&pid, command.program.c_str(), &files_, &attributes_, pointers.data(), environ);
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

siginfo_t wait_for_end(pid_t pid, int options) {
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | options) != 0 && errno == EINTR) {
  }
  return ended;
}

}  // namespace

std::string to_string(const ProcessEnd& end) {
  if (!end.was_killed) return "exited with status " + std::to_string(end.number);
  const char* name = ::sigabbrev_np(end.number);
  return "was killed by signal " + std::to_string(end.number) +
         (name != nullptr ? std::string(" (SIG") + name + ")" : "");
}

ChildProcess::ChildProcess(Command command, int socket) {
  std::promise<pid_t> started;
  auto pid = started.get_future();
  keeper_ = std::thread(&ChildProcess::keep, this, std::move(command), socket, std::move(started));
  try {
    pid_ = pid.get();
  } catch (...) {
    keeper_.join();
    throw;
  }
}

ChildProcess::~ChildProcess() {
  signal(SIGKILL);
  keeper_.join();
}

// The keeper reaps under the lock, so the number is never another process's.
void ChildProcess::signal(int number) {
  const std::lock_guard lock(mutex_);
  if (!end_) ::kill(pid_, number);
}

std::optional<ProcessEnd> ChildProcess::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, time, [this] { return end_.has_value(); });
  return end_;
}

void ChildProcess::keep(Command command, int socket, std::promise<pid_t> started) {
  pid_t pid = -1;
  if (const int error = SpawnOptions(socket).spawn(pid, command); error != 0) {
    started.set_exception(std::make_exception_ptr(std::runtime_error(
        "can't start the worker process '" + command.program + "': " + std::strerror(error))));
    return;
  }
  started.set_value(pid);
  wait_for_end(pid, WNOWAIT);
  const std::lock_guard lock(mutex_);
  const siginfo_t ended = wait_for_end(pid, 0);
  end_ = ProcessEnd{.was_killed = ended.si_code != CLD_EXITED, .number = ended.si_status};
  ended_.notify_all();
}

}  // namespace troupe::child
