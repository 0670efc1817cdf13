// SPDX-License-Identifier: Apache-2.0
// A program that we started (telemetry/spawn.hpp) and that does not outlive the object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::loadgen {

struct ChildCommand {
  std::vector<std::string> arguments;              // [0]: the program, searched in PATH
  std::map<std::string, std::string> environment;  // on top of ours
  std::filesystem::path output_file;               // for stdout and stderr; is overwritten
};

// Not for several threads at once, except pid() and signal().
class ChildProcess {
 public:
  // Throws std::runtime_error if the program can't be started.
  explicit ChildProcess(const ChildCommand& command);
  ~ChildProcess();  // kills it if it still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // The exit status once it has ended (128 + signal if it was killed); waits at
  // most that long for it.
  std::optional<int> wait_for(std::chrono::milliseconds time);
  int wait();

 private:
  bool collect(int options);

  pid_t pid_ = -1;
  std::optional<int> exit_status_;
};

}  // namespace troupe::loadgen
