// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/worker_process.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

#include "telemetry/spawn.hpp"

namespace troupe::child {
namespace {

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

WorkerProcess::WorkerProcess(Command command, int socket) {
  std::promise<pid_t> started;
  auto pid = started.get_future();
  keeper_ = std::thread(&WorkerProcess::keep, this, std::move(command), socket, std::move(started));
  try {
    pid_ = pid.get();
  } catch (...) {
    keeper_.join();
    throw;
  }
}

WorkerProcess::~WorkerProcess() {
  signal(SIGKILL);
  keeper_.join();
}

// The keeper reaps under the lock, so the number is never another process's.
void WorkerProcess::signal(int number) {
  const std::lock_guard lock(mutex_);
  if (!end_) ::kill(pid_, number);
}

std::optional<ProcessEnd> WorkerProcess::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, time, [this] { return end_.has_value(); });
  return end_;
}

void WorkerProcess::keep(Command command, int socket, std::promise<pid_t> started) {
  pid_t pid = -1;
  const int error = spawn(
      {.program = command.program, .arguments = std::move(command.arguments), .descriptor = socket}, pid);
  if (error != 0) {
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
