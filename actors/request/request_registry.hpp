// SPDX-License-Identifier: Apache-2.0
// The open requests by number, so that any thread can reach one of them to
// cancel or resume it, or all of them when the engine fails or stops.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/engine.hpp"
#include "actors/message_types.hpp"
#include "actors/request/api_error.hpp"

namespace troupe {

// Any thread.
class RequestRegistry {
 public:
  void add(RequestId id, RequestActor request);
  void remove(RequestId id);

  void cancel(RequestId id) const;
  void resume(RequestId id) const;
  void fail(RequestId id, const ApiError& error) const;
  void cancel_all() const;
  void fail_all(const ApiError& error) const;

  std::size_t size() const;
  // False if requests were left at the deadline.
  bool wait_until_empty(std::chrono::milliseconds deadline) const;

 private:
  RequestActor find(RequestId id) const;
  std::vector<RequestActor> all() const;

  mutable std::mutex mutex_;
  mutable std::condition_variable is_empty_;
  std::unordered_map<RequestId, RequestActor> requests_;
};

}  // namespace troupe
