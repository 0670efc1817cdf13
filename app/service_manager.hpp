// SPDX-License-Identifier: Apache-2.0
// Tells the service manager that started this process how it is doing: systemd's protocol
// for Type=notify, one datagram a message, to the socket that the environment names.
// Without one nothing is sent.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>

namespace troupe {

class ServiceManager {
 public:
  // Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, for processes
  // that this one starts are not to speak for it. To be made while no other thread reads that.
  ServiceManager();
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // The start goes on: most_time more is needed before say_ready(). Any thread.
  void extend_start(std::chrono::microseconds most_time) const;
  // Requests are accepted; also at the end of a reload.
  void say_ready() const;
  // Files are read anew, until say_ready() or say_reload_refused().
  void say_reloading() const;
  void say_reload_refused() const;
  // most_time: until the process has ended, which the manager waits for, however short its own
  // time is.
  void say_stopping(std::chrono::microseconds most_time) const;

  // Time without feed_watchdog() after which the manager ends this process; 0: it never does.
  std::chrono::microseconds watchdog_limit() const { return watchdog_limit_; }
  // False: the message could not be sent.
  bool feed_watchdog() const;

 private:
  bool send(std::string_view message, int flags) const;

  mutable std::atomic<bool> is_failing_ = false;  // the last message could not be sent, as the log says

  std::string address_;  // of the socket: a path, or "\0name"; empty: there is none
  int socket_ = -1;
  std::chrono::microseconds watchdog_limit_{0};
};

}  // namespace troupe
