// SPDX-License-Identifier: Apache-2.0
// Child processes, and the real binary as one, on a free port of this machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::test {

// A finished child: its exit status (128 + signal if it was killed) and all it wrote.
struct CommandResult {
  int exit_status = -1;
  std::string output;  // stdout and stderr
};
CommandResult run_command(const std::vector<std::string>& arguments);

class ChildProcess {
 public:
  // The program's path, then its arguments.
  explicit ChildProcess(const std::vector<std::string>& arguments);
  ~ChildProcess();  // kills it if it still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Reads what it writes until a line holds the mark; the rest of that line.
  // Throws std::runtime_error with all it said if it ends, or says nothing for
  // a minute, before that.
  std::string wait_for(const std::string& mark);
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits for the end; the exit status, 128 + signal if it was killed.
  int wait();

 private:
  pid_t pid_ = -1;
  int output_ = -1;  // read end of its standard output and error
};

class ServerProcess {
 public:
  // Runs `troupe serve --port 0` with these flags and waits until it says it is
  // ready. Throws std::runtime_error with its output if it does not.
  explicit ServerProcess(const std::vector<std::string>& flags);

  std::uint16_t port() const { return port_; }
  pid_t pid() const { return process_.pid(); }
  void signal(int number) const { process_.signal(number); }
  int wait() { return process_.wait(); }

 private:
  ChildProcess process_;
  std::uint16_t port_ = 0;
};

}  // namespace troupe::test
