// SPDX-License-Identifier: Apache-2.0
// A collector for tests: receives OTLP over HTTP or HTTPS, in protobuf or JSON,
// compressed or not, on a free port of this machine. It keeps the spans, and
// misbehaves on request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/observability/received_span.hpp"
#include "tests/support/tls/certificate_files.hpp"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace troupe::test {

struct SinkAnswer {
  unsigned status = 200;
  std::string body = "";
  std::string headers = {};   // whole lines, with their ends
  std::string before = {};    // sent ahead of it, as it is
  std::string after = {};     // sent behind it
  bool says_nothing = false;  // keeps the connection open, and still
  bool hangs_up = false;      // closes it without an answer
  std::string raw = {};       // not empty: sent as it is, and then closed
};

class OtlpSink {
 public:
  OtlpSink();
  explicit OtlpSink(const CertificateFiles& certificate);  // https
  ~OtlpSink();
  OtlpSink(const OtlpSink&) = delete;
  OtlpSink& operator=(const OtlpSink&) = delete;

  std::uint16_t port() const { return port_; }
  std::string url() const;

  // What the next requests are answered, in order; then `otherwise`. Spans are
  // kept where the status is 200.
  void answer_next(std::vector<SinkAnswer> answers);
  void answer_otherwise(SinkAnswer answer);

  std::vector<ReceivedSpan> spans() const;
  std::size_t num_requests() const;
  std::size_t num_connections() const { return num_connections_; }
  std::string last_path() const;
  // Of the last request; empty if it had no such header.
  std::string last_header(const std::string& name) const;
  // False if it has not come true after 30 s.
  bool wait_until(const std::function<bool(const std::vector<ReceivedSpan>&)>& is_enough) const;
  // For requests rather than spans.
  bool wait_for_requests(std::size_t count) const;

 private:
  class Stream;
  struct Request {
    std::string head, path, body;
  };
  struct TlsContextDeleter {
    void operator()(ssl_ctx_st* context) const;
  };

  void accept();
  void serve(Stream& stream);
  bool answer(Stream& stream, const Request& request);

  std::unique_ptr<ssl_ctx_st, TlsContextDeleter> tls_;  // null: plain HTTP
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
  Request last_;
  std::set<int> open_;  // connections
  std::vector<std::thread> threads_;
  std::thread accepter_;
};

}  // namespace troupe::test
