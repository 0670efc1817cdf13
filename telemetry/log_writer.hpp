// SPDX-License-Identifier: Apache-2.0
// Lines on their way to a descriptor that may block: a terminal that is stopped,
// a pipe that is not read. Logging never waits for it; beyond a bound
// lines are dropped, and a line says how many as soon as there is room again.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace troupe {

// Any thread.
class LogWriter {
 public:
  // The descriptor stays the caller's.
  explicit LogWriter(int descriptor, std::size_t max_queued_bytes = 1 << 20);
  ~LogWriter();  // flushes, for a second at most
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // line: with its end.
  void put(std::string line);
  // False if not all was written in time.
  bool flush(std::chrono::milliseconds time);

 private:
  struct State;
  const std::size_t max_queued_bytes_;
  // Shared with the thread: it may sit in write() for ever, and is then left behind.
  std::shared_ptr<State> state_;
};

}  // namespace troupe
