// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/live_status.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace troupe::loadgen {
namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::seconds kWindow{5};
constexpr std::chrono::seconds kPlainPeriod{10};  // of lines where there is no terminal

double milliseconds(nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }
double seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// Nearest rank, of a sorted list.
nanoseconds percentile(const std::vector<nanoseconds>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(rank, sorted.size() - 1)];
}

}  // namespace

std::string status_line(const LiveStatus& status) {
  char text[200];
  std::snprintf(text, sizeof text, "%7.1f s  sent %llu  done %llu  running %llu  errors %llu  %.1f tok/s",
                seconds(status.elapsed), static_cast<unsigned long long>(status.num_sent),
                static_cast<unsigned long long>(status.num_completed),
                static_cast<unsigned long long>(status.num_running),
                static_cast<unsigned long long>(status.num_failed), status.output_tokens_per_second);
  std::string line = text;
  if (status.ttft_p50 > nanoseconds(0)) {
    std::snprintf(text, sizeof text, "  TTFT p50 %.1f ms, p99 %.1f ms", milliseconds(status.ttft_p50),
                  milliseconds(status.ttft_p99));
    line += text;
  }
  return line;
}

void LiveWindow::note_end(const RequestRecord& record) {
  const bool is_as_planned = record.outcome == Outcome::kCompleted || record.outcome == Outcome::kCancelled;
  ++(is_as_planned ? status_.num_completed : status_.num_failed);
  const bool has_token = record.first_token > nanoseconds(0);
  recent_.push_back(
      {record.finished, has_token ? record.time_to_first_token() : nanoseconds(-1), record.output_tokens});
}

LiveStatus LiveWindow::status(Time now) {
  while (!recent_.empty() && recent_.front().time < now - kWindow) recent_.pop_front();
  status_.elapsed = now;
  status_.num_running = status_.num_sent - status_.num_completed - status_.num_failed;
  std::uint64_t tokens = 0;
  std::vector<nanoseconds> times;
  for (const auto& ended : recent_) {
    tokens += ended.output_tokens;
    if (ended.time_to_first_token >= nanoseconds(0)) times.push_back(ended.time_to_first_token);
  }
  const auto window = std::min<nanoseconds>(now, kWindow);
  status_.output_tokens_per_second =
      window > nanoseconds(0) ? static_cast<double>(tokens) / seconds(window) : 0;
  std::sort(times.begin(), times.end());
  status_.ttft_p50 = times.empty() ? nanoseconds(0) : percentile(times, 0.50);
  status_.ttft_p99 = times.empty() ? nanoseconds(0) : percentile(times, 0.99);
  return status_;
}

StatusPrinter::StatusPrinter(std::FILE* out) : out_(out), is_terminal_(::isatty(::fileno(out)) == 1) {}

void StatusPrinter::print(const LiveStatus& status) {
  if (is_terminal_) {
    std::fprintf(out_, "\r\x1b[2K%s", status_line(status).c_str());
    has_line_ = true;
  } else if (status.elapsed >= next_) {
    next_ = status.elapsed + kPlainPeriod;
    std::fprintf(out_, "%s\n", status_line(status).c_str());
  }
  std::fflush(out_);
}

void StatusPrinter::finish() {
  if (has_line_) std::fputc('\n', out_);
  has_line_ = false;
}

}  // namespace troupe::loadgen
