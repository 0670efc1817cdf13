// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT, which ask the server to end. They are blocked in every
// thread and taken by one, so none of them ends the process by its default
// action, in whatever state it is: loading, serving, or frozen and thawed.
//
//   first signal, while loading   exit 0 at once: nothing was begun yet
//   first signal, while serving   wait() says so: the server drains
//   second signal                 exit 130 at once
//
// SIGHUP ends the process as it ends others, unless keep_hangups() was called and the
// terminal that it was started on, if there was one, is still there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace troupe {

class EndingSignals {
 public:
  // Construct it before any other thread is started, so that all inherit the mask.
  EndingSignals();
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  // The first signal does not end the process any more.
  void begin_serving();

  // True if the first signal has come, within the time.
  bool wait(std::chrono::milliseconds time);

  // From now on SIGHUP asks for files to be read anew, and take_hangup() tells of it.
  void keep_hangups();
  // True if one has come since the last call.
  bool take_hangup();

  // A process that still runs after that time ends with status 0 on the spot.
  void give_up_after(std::chrono::milliseconds time);

 private:
  void take(const std::stop_token& stop);
  void take_one();
  void take_one_hangup();
  bool is_time_over();

  std::mutex mutex_;
  std::condition_variable came_;
  bool is_serving_ = false;
  bool has_come_ = false;
  const bool had_terminal_;
  bool keeps_hangups_ = false;
  bool has_hangup_ = false;
  std::optional<std::chrono::steady_clock::time_point> give_up_;
  std::jthread thread_;  // last: it uses what is above
};

}  // namespace troupe
