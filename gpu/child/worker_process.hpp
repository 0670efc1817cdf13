// SPDX-License-Identifier: Apache-2.0
// A worker process that the server has started. A thread of ours starts it and
// waits for its end, so it is reaped at once: no zombie is ever left. The system
// is asked to kill a worker when the thread that started it ends
// (PR_SET_PDEATHSIG), and this thread lives as long as the worker.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "telemetry/spawn.hpp"

namespace troupe::child {

// The descriptor of its socket in a worker process.
inline constexpr int kWorkerSocket = kSpawnedDescriptor;

struct Command {
  std::string program;                 // a path
  std::vector<std::string> arguments;  // [0]: as what it is shown
};

// "was killed by signal 9 (SIGKILL)", "exited with status 3".
struct ProcessEnd {
  bool was_killed = false;
  int number = 0;  // of the signal, or the status
};
std::string to_string(const ProcessEnd& end);

// Any thread.
class WorkerProcess {
 public:
  // Runs the command's program with `socket` as its kWorkerSocket, our standard error
  // as its output, and nothing else (telemetry/spawn.hpp). Throws std::runtime_error.
  WorkerProcess(Command command, int socket);
  ~WorkerProcess();  // kills it if it still runs, and waits until it is gone
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number);
  // How it ended; nullopt: it still runs after that time.
  std::optional<ProcessEnd> wait_for(std::chrono::milliseconds time);

 private:
  void keep(Command command, int socket, std::promise<pid_t> started);

  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<ProcessEnd> end_;
  pid_t pid_ = -1;
  std::thread keeper_;
};

}  // namespace troupe::child
