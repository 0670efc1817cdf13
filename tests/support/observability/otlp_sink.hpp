// SPDX-License-Identifier: Apache-2.0
// A collector for tests: receives OTLP/HTTP with JSON bodies on a free port of
// this machine, keeps the spans, and misbehaves on request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace troupe::test {

struct ReceivedEvent {
  std::string name;
  std::int64_t time = 0;
};

struct ReceivedLink {
  std::string trace_id, span_id;
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
};

// Of one ExportTraceServiceRequest; throws where it is not one.
std::vector<ReceivedSpan> parse_spans(const nlohmann::json& request);
// Of a file of OTLP JSON lines.
std::vector<ReceivedSpan> read_spans(const std::string& path);

struct SinkAnswer {
  unsigned status = 200;
  std::string body = "{}";
  std::string headers = {};   // whole lines, with their ends
  bool says_nothing = false;  // keeps the connection open, and still
  bool hangs_up = false;      // closes it without an answer
  std::string raw = {};       // not empty: sent as it is, and then closed
};

class OtlpSink {
 public:
  OtlpSink();
  ~OtlpSink();
  OtlpSink(const OtlpSink&) = delete;
  OtlpSink& operator=(const OtlpSink&) = delete;

  std::uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  // What the next requests are answered, in order; then `otherwise`. Spans are
  // kept where the status is 200.
  void answer_next(std::vector<SinkAnswer> answers);
  void answer_otherwise(SinkAnswer answer);

  std::vector<ReceivedSpan> spans() const;
  std::size_t num_requests() const;
  std::size_t num_connections() const { return num_connections_; }
  std::string last_path() const;
  // False if it has not come true after 30 s.
  bool wait_until(const std::function<bool(const std::vector<ReceivedSpan>&)>& is_enough) const;
  // For requests rather than spans.
  bool wait_for_requests(std::size_t count) const;

 private:
  void accept();
  void serve(int connection);
  bool answer(int connection, const std::string& path, const std::string& body);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> is_over_ = false;
  std::atomic<std::size_t> num_connections_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<SinkAnswer> next_;
  SinkAnswer otherwise_;
  std::vector<ReceivedSpan> spans_;
  std::size_t num_requests_ = 0;
  std::string last_path_;
  std::set<int> open_;  // connections
  std::vector<std::thread> threads_;
  std::thread accepter_;
};

}  // namespace troupe::test
