// SPDX-License-Identifier: Apache-2.0
// One connection to one HTTP server, for whoever may wait: posts a body, reads
// the answer, never beyond a deadline. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

struct PostedAnswer {
  unsigned status = 0;  // 0: there is none, error says why
  std::string error;
  std::uint32_t retry_after_s = 0;  // 0: not said
  std::string body;                 // at most 64 KiB, else an error
};

class HttpPoster {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // host: a name or an address.
  HttpPoster(std::string host, std::uint16_t port, std::string path);
  ~HttpPoster();

  // Connects if need be. time_limit is asked again and again while waiting: it
  // may move nearer.
  PostedAnswer post(const std::string& json, const std::function<TimePoint()>& time_limit);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
