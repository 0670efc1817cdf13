// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/child_process.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "telemetry/spawn.hpp"

namespace troupe::loadgen {
namespace {

constexpr std::chrono::milliseconds kPollPeriod{2};

}  // namespace

ChildProcess::ChildProcess(const ChildCommand& command) {
  if (command.arguments.empty()) throw std::runtime_error("can't start a program: the command is empty");
  const std::string& program = command.arguments.front();
  const int error = spawn({.program = program,
                           .arguments = command.arguments,
                           .environment = command.environment,
                           .output_file = command.output_file},
                          pid_);
  if (error == 0) return;
  pid_ = -1;
  throw std::runtime_error("can't start '" + program + "' with its output in '" +
                           command.output_file.string() + "': " + std::strerror(error));
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || exit_status_) return;
  ::kill(pid_, SIGKILL);
  collect(0);
}

void ChildProcess::signal(int number) const { ::kill(pid_, number); }

std::optional<int> ChildProcess::wait_for(std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (!collect(WNOHANG) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(kPollPeriod);
  return exit_status_;
}

int ChildProcess::wait() {
  collect(0);
  return exit_status_.value_or(-1);
}

bool ChildProcess::collect(int options) {
  if (exit_status_) return true;
  int status = 0;
  pid_t found = 0;
  do found = ::waitpid(pid_, &status, options);
  while (found < 0 && errno == EINTR);
  if (found != pid_) return false;
  exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

}  // namespace troupe::loadgen
