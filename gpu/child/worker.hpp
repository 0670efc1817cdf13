// SPDX-License-Identifier: Apache-2.0
// A worker process and the server's end of the connection to it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/child/frame_socket.hpp"
#include "gpu/child/worker_process.hpp"

namespace troupe::child {

// One thread at a time. The destructor closes the connection, which asks the
// process to end, gives it a moment, kills it and waits until it is gone.
class Worker {
 public:
  // Starts the program and agrees with it on the protocol. Throws
  // std::runtime_error.
  explicit Worker(Command command);
  // For tests: anything at the other end, without a process.
  explicit Worker(FrameSocket socket) : socket_(std::move(socket)) {}
  ~Worker();
  Worker(Worker&&) noexcept = default;
  Worker& operator=(Worker&&) = delete;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  FrameSocket& socket() { return socket_; }

  // Sends the question and waits for the answer. Throws std::runtime_error with
  // what the worker said, or how it ended.
  template <class Answer, class Question>
  Answer ask(const Question& question, std::chrono::milliseconds time, int descriptor = -1) {
    return decode<Answer>(ask(encode(question), kKindOf<Answer>, time, descriptor));
  }

  // True if the process is still there, and quiet.
  bool is_idle();

  void kill();

  // After its connection was lost: "the worker process was killed by signal 9
  // (SIGKILL)". A process that has not ended by now is killed.
  std::string end_in_words();

 private:
  Frame ask(const std::vector<std::byte>& question, MessageKind answer, std::chrono::milliseconds time,
            int descriptor);
  void greet();

  FrameSocket socket_;
  std::unique_ptr<WorkerProcess> process_;
};

}  // namespace troupe::child
