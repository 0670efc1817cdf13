// SPDX-License-Identifier: Apache-2.0
// A blocking client of one HTTP server, under TLS where that is what it speaks: asks, reads
// the answer, never beyond a time limit, and keeps the connection for the next question.
// Traces are posted with it, and a load generator asks a server how it is. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct HttpHeader {
  std::string name, value;
};

struct HttpServerAddress {
  std::string host;  // an IPv6 address without its brackets
  std::uint16_t port = 0;
  bool is_https = false;
  std::string trusted_certificates = {};  // for https: a PEM file; empty: those of the system
  bool is_insecure = false;               // any certificate of any name will do
};

struct HttpCall {
  std::string method = "GET";
  std::string path;
  std::vector<HttpHeader> headers = {};  // but for the body's length
  std::string body = {};
};

// Why there is no reply.
struct HttpFailure {
  enum class Step : std::uint8_t { kResolve, kConnect, kHandshake, kSend, kReceive };
  enum class Cause : std::uint8_t { kOther, kRefused, kTimedOut, kClosed };

  Step step = Step::kConnect;
  Cause cause = Cause::kOther;
  std::string reason;  // in the system's words
};

struct HttpReply {
  unsigned status = 0;  // 0: there is none, failure says why
  std::string body = {};
  std::chrono::seconds retry_after{0};  // 0: not said
  HttpFailure failure = {};
};

class HttpClient {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A longer body than max_body_bytes is a failure. Throws std::runtime_error if the trusted
  // certificates can't be read. Nothing is connected yet.
  HttpClient(HttpServerAddress server, std::uint64_t max_body_bytes);
  ~HttpClient();

  // Connects if need be. time_limit is asked again and again while waiting: it
  // may move nearer.
  HttpReply ask(const HttpCall& call, const std::function<TimePoint()>& time_limit);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
