// SPDX-License-Identifier: Apache-2.0
// A server that we start for an experiment: waits until it is ready, notices
// when it dies, stops it in order.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "loadgen/client/server/child_process.hpp"
#include "loadgen/client/server/server_address.hpp"

namespace troupe::loadgen {

struct ServerCommand {
  // "{port}" in it becomes a free port of this machine. Without it the server
  // chooses one and says so, as `troupe serve --port 0` does: the number behind
  // the mark.
  std::vector<std::string> arguments;
  std::string port_mark = "http://127.0.0.1:";
  std::map<std::string, std::string> environment = {};
  std::filesystem::path log_file;
  std::string ready_path = "/health";  // 200 there: ready
  std::chrono::seconds start_timeout{120};
};

class ServerProcess {
 public:
  // Returns when the server is ready. Throws std::runtime_error with the end of
  // its log if it ends before, or does not get ready in time.
  explicit ServerProcess(const ServerCommand& command);

  const ServerAddress& address() const { return address_; }
  pid_t pid() const { return child_.pid(); }
  void signal(int number) const { child_.signal(number); }
  bool has_ended() { return child_.wait_for(std::chrono::milliseconds(0)).has_value(); }
  // Waits for its end; the exit status, 128 + signal if it was killed.
  int wait() { return child_.wait(); }
  // SIGTERM, and SIGKILL when the grace is over. The exit status.
  int stop(std::chrono::seconds grace);
  // The end of its output.
  std::string log_end() const;

 private:
  void wait_until_ready(const ServerCommand& command);
  bool is_listening(const ServerCommand& command);
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path log_file_;
  ServerAddress address_;
  ChildProcess child_;
};

}  // namespace troupe::loadgen
