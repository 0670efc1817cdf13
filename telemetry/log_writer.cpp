// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log_writer.hpp"

#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace troupe {
namespace {

constexpr std::chrono::seconds kFarewell{1};

// What can't be written to the log can't be told to anyone.
void write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

struct LogWriter::State {
  std::mutex mutex;
  std::condition_variable has_lines, is_written;
  std::string queued;
  std::uint64_t num_dropped = 0;
  bool is_writing = false;
  bool is_over = false;

  bool is_idle() const { return queued.empty() && !is_writing; }

  void run(int descriptor) {
    std::unique_lock lock(mutex);
    for (;;) {
      has_lines.wait(lock, [this] { return is_over || !queued.empty(); });
      if (queued.empty()) return;
      std::string lines = std::exchange(queued, {});
      if (const auto lost = std::exchange(num_dropped, 0); lost > 0)
        lines += "(" + std::to_string(lost) + " log lines were dropped: standard error does not keep up)\n";
      is_writing = true;
      lock.unlock();
      write_all(descriptor, lines);
      lock.lock();
      is_writing = false;
      is_written.notify_all();
    }
  }
};

LogWriter::LogWriter(int descriptor, std::size_t max_queued_bytes)
    : max_queued_bytes_(max_queued_bytes), state_(std::make_shared<State>()) {
  std::thread([state = state_, descriptor] { state->run(descriptor); }).detach();
}

LogWriter::~LogWriter() {
  flush(kFarewell);
  const std::lock_guard lock(state_->mutex);
  state_->is_over = true;
  state_->has_lines.notify_one();
}

void LogWriter::put(std::string line) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->queued.size() + line.size() > max_queued_bytes_) {
      state_->num_dropped += 1;
      return;
    }
    state_->queued += line;
  }
  state_->has_lines.notify_one();
}

bool LogWriter::flush(std::chrono::milliseconds time) {
  std::unique_lock lock(state_->mutex);
  return state_->is_written.wait_for(lock, time, [this] { return state_->is_idle(); });
}

}  // namespace troupe
