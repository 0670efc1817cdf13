// SPDX-License-Identifier: Apache-2.0
// One connection to one HTTP server, under TLS where the URL says https: posts a
// body, reads the answer, never beyond a deadline. The caller waits. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telemetry/tracing/otlp_endpoint.hpp"

namespace troupe {

struct PostedHeader {
  std::string name, value;
};

struct PostedAnswer {
  unsigned status = 0;  // 0: there is none, error says why
  std::string error;
  std::chrono::seconds retry_after{0};  // 0: not said
  std::string body;                     // at most 64 KiB, else an error
};

class HttpPoster {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // headers: sent with every body. trusted_certificates, for https: a PEM file;
  // empty: those that the system trusts. Throws std::runtime_error if these can't be
  // had. Nothing is connected yet.
  HttpPoster(const OtlpEndpoint& endpoint, std::vector<PostedHeader> headers,
             const std::string& trusted_certificates);
  ~HttpPoster();

  // Connects if need be. time_limit is asked again and again while waiting: it
  // may move nearer.
  PostedAnswer post(const std::string& body, const std::function<TimePoint()>& time_limit);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
