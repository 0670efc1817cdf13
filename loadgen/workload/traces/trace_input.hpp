// SPDX-License-Identifier: Apache-2.0
// A trace as it is read: a text file, bit by bit, that knows its name and line for messages, and its times.
#pragma once

#include <chrono>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>

namespace troupe::loadgen {

class TraceInput {
 public:
  TraceInput(std::unique_ptr<std::istream> in, std::string name);

  // Skips empty lines; the line comes without its end. False at the end of the
  // file. Fails on lines over 64 MiB, which are no text.
  bool next_line(std::string& line);
  // One character, or -1 at the end of the file. A byte order mark is skipped.
  int next_character();

  const std::string& name() const { return name_; }
  // Place of the last line read: "NAME:LINE", lines from 1.
  std::string place() const { return name_ + ":" + std::to_string(line_); }
  [[noreturn]] void fail(const std::string& what) const;  // std::runtime_error "PLACE: WHAT"

 private:
  std::unique_ptr<std::istream> in_;
  std::string name_;
  std::uint64_t line_ = 1;
  bool is_at_line_end_ = false;
};

// Throws std::runtime_error.
TraceInput open_trace_input(const std::string& path);

// The times of a trace, counted from its first request.
class TraceClock {
 public:
  // Takes the time of the next request on whatever clock the trace has. Fails
  // at the input's line if it lies before the one of the request before.
  std::chrono::nanoseconds since_begin(std::chrono::nanoseconds time, const TraceInput& input);

 private:
  std::optional<std::chrono::nanoseconds> first_;
  std::chrono::nanoseconds last_{0};
};

}  // namespace troupe::loadgen
