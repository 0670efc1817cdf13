// SPDX-License-Identifier: Apache-2.0
// The real binary, started as a child process on a free port of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/client/server/server_process.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe::test {

// A finished child: its exit status (128 + signal if it was killed) and all it wrote.
struct CommandResult {
  int exit_status = -1;
  std::string output;  // stdout and stderr
};
CommandResult run_command(const std::vector<std::string>& arguments);

class ServerProcess {
 public:
  // Runs `troupe serve --port 0` with these flags and waits until it is ready.
  // It keeps nothing (--store-directory none) unless a flag says where.
  // Throws std::runtime_error with its output if it does not get there.
  explicit ServerProcess(const std::vector<std::string>& flags);

  std::uint16_t port() const { return server_.address().port; }
  pid_t pid() const { return server_.pid(); }
  void signal(int number) const { server_.signal(number); }
  // Waits for the end; the exit status, 128 + signal if it was killed.
  int wait() { return server_.wait(); }
  // All it has written so far.
  std::string output() const { return file_text(log_.path()); }

 private:
  TemporaryFile log_;
  loadgen::ServerProcess server_;  // killed at the end if it still runs
};

}  // namespace troupe::test
