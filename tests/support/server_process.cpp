// SPDX-License-Identifier: Apache-2.0
#include "tests/support/server_process.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <stdexcept>

namespace troupe::test {
namespace {

struct Child {
  pid_t pid;
  int output;
};

Child start(const std::vector<std::string>& arguments) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) throw std::runtime_error("pipe failed");
  std::vector<char*> raw;
  for (const auto& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    ::close(pipe[0]);
    ::close(pipe[1]);
    ::execv(raw[0], raw.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  return {pid, pipe[0]};
}

int exit_status(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& arguments) {
  const auto child = start(arguments);
  CommandResult result;
  std::array<char, 4096> buffer{};
  for (auto got = ::read(child.output, buffer.data(), buffer.size()); got > 0;
       got = ::read(child.output, buffer.data(), buffer.size()))
    result.output.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(child.output);
  result.exit_status = exit_status(child.pid);
  return result;
}

ChildProcess::ChildProcess(const std::vector<std::string>& arguments) {
  const auto child = start(arguments);
  pid_ = child.pid;
  output_ = child.output;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    exit_status(pid_);
  }
  ::close(output_);
}

std::string ChildProcess::wait_for(const std::string& mark) {
  std::string said;
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd waiting{.fd = output_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 60'000) <= 0) break;
    const auto got = ::read(output_, buffer.data(), buffer.size());
    if (got <= 0) break;
    said.append(buffer.data(), static_cast<std::size_t>(got));
    const auto at = said.find(mark);
    const auto end = at == std::string::npos ? at : said.find('\n', at);
    if (end != std::string::npos) return said.substr(at + mark.size(), end - at - mark.size());
  }
  ::kill(pid_, SIGKILL);
  throw std::runtime_error("'" + mark + "' was not said, exit status " + std::to_string(wait()) + ":\n" + said);
}

void ChildProcess::signal(int number) const { ::kill(pid_, number); }

int ChildProcess::wait() {
  const int status = exit_status(pid_);
  pid_ = -1;
  return status;
}

namespace {

std::vector<std::string> serve_on_any_port(const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {TROUPE_BINARY, "serve", "--port", "0"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return arguments;
}

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& flags) : process_(serve_on_any_port(flags)) {
  port_ = static_cast<std::uint16_t>(std::atoi(process_.wait_for("http://127.0.0.1:").c_str()));
}

}  // namespace troupe::test
