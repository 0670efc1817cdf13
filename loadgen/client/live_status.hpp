// SPDX-License-Identifier: Apache-2.0
// How a run goes, while it goes: counts since its begin, and figures of its
// last seconds; and the line that shows it.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <string>

#include "loadgen/result/request_record.hpp"

namespace troupe::loadgen {

struct LiveStatus {
  std::chrono::nanoseconds elapsed{0};
  std::uint64_t num_sent = 0;  // handed to the client
  std::uint64_t num_completed = 0;
  std::uint64_t num_failed = 0;   // ended in any other way
  std::uint64_t num_running = 0;  // sent, not ended
  // Rate over the answers that ended within the last seconds.
  double output_tokens_per_second = 0;
  std::chrono::nanoseconds ttft_p50{0};  // 0: none ended
  std::chrono::nanoseconds ttft_p99{0};
};

// "  12.0 s  sent 48  done 41  running 7  errors 0  312.4 tok/s  TTFT p50 23.1 ms, p99 88.0 ms"
std::string status_line(const LiveStatus& status);

class LiveWindow {
 public:
  using Time = std::chrono::nanoseconds;  // from the begin of the run

  void note_sent() { ++status_.num_sent; }
  void note_end(const RequestRecord& record);
  LiveStatus status(Time now);

 private:
  struct Ended {
    Time time;
    Time time_to_first_token;  // below 0: there was none
    std::uint32_t output_tokens;
  };

  LiveStatus status_;
  std::deque<Ended> recent_;
};

// Shows how a run goes: one line that is overwritten each time on a terminal,
// elsewhere a line every ten seconds.
class StatusPrinter {
 public:
  explicit StatusPrinter(std::FILE* out);

  void print(const LiveStatus& status);
  // The line stays, what comes next begins below it.
  void finish();

 private:
  std::FILE* out_;
  bool is_terminal_;
  bool has_line_ = false;
  std::chrono::nanoseconds next_{0};
};

}  // namespace troupe::loadgen
