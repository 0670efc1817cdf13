// SPDX-License-Identifier: Apache-2.0
// A server that thinks nothing: it answers each request with `max_tokens` chunks
// at regular gaps, and notes when it sent them. The rest of the time that a client
// measures against it is the client's own cost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe::loadgen {

class NullServer {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Times of each answer's chunks, by X-Request-Id.
  using SendTimes = std::unordered_map<std::string, std::vector<Time>>;

  // On a free port of 127.0.0.1, on a thread of its own. Chunks leave in rounds
  // of a millisecond, those of one answer `gap` apart; 0: all at once.
  explicit NullServer(std::chrono::milliseconds gap);
  ~NullServer();
  NullServer(const NullServer&) = delete;
  NullServer& operator=(const NullServer&) = delete;

  std::uint16_t port() const;
  // Ends the thread, closes everything.
  SendTimes stop();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe::loadgen
