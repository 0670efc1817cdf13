// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/child_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace troupe::loadgen {
namespace {

constexpr std::chrono::milliseconds kPollPeriod{2};

std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!more.contains(std::string(text.substr(0, text.find('='))))) all.emplace_back(text);
  }
  for (const auto& [name, value] : more) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What posix_spawn wants to be told, freed at the end.
struct SpawnOptions {
  explicit SpawnOptions(const char* output_file) {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output_file, O_WRONLY | O_CREAT | O_TRUNC,
                                       0644);
    ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    ::posix_spawnattr_setpgroup(&attributes, 0);
  }
  ~SpawnOptions() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

}  // namespace

ChildProcess::ChildProcess(const ChildCommand& command) {
  if (command.arguments.empty()) throw std::runtime_error("can't start a program: the command is empty");
  auto arguments = command.arguments;
  auto environment = environment_with(command.environment);
  const SpawnOptions options(command.output_file.c_str());
  const int error = ::posix_spawnp(&pid_, arguments.front().c_str(), &options.files, &options.attributes,
                                   pointers(arguments).data(), pointers(environment).data());
  if (error == 0) return;
  pid_ = -1;
  throw std::runtime_error("can't start '" + arguments.front() + "' with its output in '" +
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
