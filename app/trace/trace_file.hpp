// SPDX-License-Identifier: Apache-2.0
// Reads a trace file: OTLP JSON lines, of this server or of anyone's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

struct TraceSpan {
  struct Event {
    std::string name;
    std::int64_t time = 0;
  };
  struct Link {
    std::string trace_id, span_id;
  };

  std::string instance;  // of the service: one a process
  std::string trace_id, span_id, parent_id, name;
  int kind = 0;  // of OTLP; 2: server
  bool is_error = false;
  std::int64_t start = 0, end = 0;           // unix nanoseconds, start <= end
  std::map<std::string, double> numbers;     // attributes
  std::map<std::string, std::string> texts;  // attributes
  std::vector<Event> events;
  std::vector<Link> links;

  double number(const std::string& key) const;     // 0 if there is none
  std::string text(const std::string& key) const;  // empty if there is none
};

struct TraceFile {
  std::vector<TraceSpan> spans;
  std::vector<std::string> warnings;
};

// Throws std::runtime_error with file, line and what was expected. A last line
// that was cut off is a warning: its server was killed, or still writes.
TraceFile read_trace_file(const std::filesystem::path& path);

}  // namespace troupe
