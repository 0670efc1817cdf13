// SPDX-License-Identifier: Apache-2.0
// The real binary, started as a child process on a free port of this machine.
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

class ServerProcess {
 public:
  // Runs `troupe serve --port 0` with these flags and waits until it says it is
  // ready. Throws std::runtime_error with its output if it does not.
  explicit ServerProcess(const std::vector<std::string>& flags);
  ~ServerProcess();  // kills it if it still runs
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits for the end; the exit status, 128 + signal if it was killed.
  int wait();

 private:
  pid_t pid_ = -1;
  int output_ = -1;  // read end of its standard output
  std::uint16_t port_ = 0;
};

}  // namespace troupe::test
