// SPDX-License-Identifier: Apache-2.0
#include "app/ending_signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <ctime>
#include <utility>

#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr int kKilledBySignal = 130;  // as a shell calls the end by Ctrl-C
constexpr timespec kLookInterval{.tv_sec = 0, .tv_nsec = 100'000'000};
constexpr std::chrono::seconds kTimeForLastLines{1};

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// One that was closed is none any more.
bool has_terminal() { return ::isatty(STDIN_FILENO) == 1; }

// In this thread, with what others than us have said should be done (nohup).
void do_what_hangups_do() {
  sigset_t hangup;
  sigemptyset(&hangup);
  sigaddset(&hangup, SIGHUP);
  ::pthread_sigmask(SIG_UNBLOCK, &hangup, nullptr);
  ::raise(SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &hangup, nullptr);
}

}  // namespace

EndingSignals::EndingSignals() : had_terminal_(has_terminal()) {
  const sigset_t signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::jthread([this](const std::stop_token& stop) { take(stop); });
}

EndingSignals::~EndingSignals() = default;

void EndingSignals::begin_serving() {
  const std::lock_guard lock(mutex_);
  is_serving_ = true;
}

bool EndingSignals::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return came_.wait_for(lock, time, [this] { return has_come_; });
}

void EndingSignals::keep_hangups() {
  const std::lock_guard lock(mutex_);
  keeps_hangups_ = true;
}

bool EndingSignals::take_hangup() {
  const std::lock_guard lock(mutex_);
  return std::exchange(has_hangup_, false);
}

void EndingSignals::give_up_after(std::chrono::milliseconds time) {
  const std::lock_guard lock(mutex_);
  give_up_ = std::chrono::steady_clock::now() + time;
}

void EndingSignals::take(const std::stop_token& stop) {
  const sigset_t signals = ending_signals();
  while (!stop.stop_requested()) {
    const int number = ::sigtimedwait(&signals, nullptr, &kLookInterval);
    if (number == SIGHUP) {
      take_one_hangup();
    } else if (number > 0) {
      take_one();
    }
    if (is_time_over()) ::_exit(0);
  }
}

void EndingSignals::take_one() {
  const std::lock_guard lock(mutex_);
  if (has_come_) ::_exit(kKilledBySignal);
  if (!is_serving_) {
    log(LogLevel::kInfo, "stopped while loading");
    flush_log(kTimeForLastLines);
    ::_exit(0);
  }
  has_come_ = true;
  came_.notify_all();
}

void EndingSignals::take_one_hangup() {
  const std::lock_guard lock(mutex_);
  const bool is_terminal_closed = had_terminal_ && !has_terminal();
  if (keeps_hangups_ && !is_terminal_closed) {
    has_hangup_ = true;
  } else {
    do_what_hangups_do();
  }
}

bool EndingSignals::is_time_over() {
  const std::lock_guard lock(mutex_);
  return give_up_ && std::chrono::steady_clock::now() > *give_up_;
}

}  // namespace troupe
