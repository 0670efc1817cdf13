// SPDX-License-Identifier: Apache-2.0
// Spans as a collector reads them, from OTLP's JSON and from its protobuf.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::test {

struct ReceivedEvent {
  std::string name;
  std::int64_t time = 0;
  std::map<std::string, nlohmann::json> attributes = {};  // plain JSON values
  bool operator==(const ReceivedEvent&) const = default;
};

struct ReceivedLink {
  std::string trace_id, span_id;
  bool operator==(const ReceivedLink&) const = default;
};

struct ReceivedSpan {
  std::string trace_id, span_id, parent_id, name, trace_state;
  int kind = 0;
  int status = 0;
  std::string status_message;
  std::int64_t start = 0, end = 0;                   // unix nanoseconds
  std::map<std::string, nlohmann::json> attributes;  // plain JSON values
  std::vector<ReceivedEvent> events;
  std::vector<ReceivedLink> links;

  bool has_event(const std::string& event) const;
  bool operator==(const ReceivedSpan&) const = default;
};

// Of one ExportTraceServiceRequest, in JSON or protobuf; both throw where it is none.
std::vector<ReceivedSpan> parse_spans(const nlohmann::json& request);
std::vector<ReceivedSpan> parse_protobuf_spans(const std::string& request);
// Of a file of OTLP JSON lines.
std::vector<ReceivedSpan> read_spans(const std::string& path);

}  // namespace troupe::test
