// SPDX-License-Identifier: Apache-2.0
// The spans of the last requests, in memory, for the page's time lines. A ring, bounded in
// requests and in bytes; the oldest go first, of all tenants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "telemetry/tracing/span_exporter.hpp"

namespace troupe {

struct RecentQuery {
  std::optional<std::string> tenant = {};  // nothing: all
  std::int64_t ended_after = 0;            // Unix nanoseconds
  std::size_t limit = 100;                 // the newest, where there are more
};

// Any thread.
class RecentSpans {
 public:
  // max_requests 0: keeps nothing.
  RecentSpans(std::size_t max_requests, std::size_t max_bytes);

  bool keeps_any() const { return max_requests_ > 0; }
  // request: its root first. One that is larger than all the room is not kept.
  void add(const std::string& tenant, SpanTree request);
  // In the order in which they were added.
  std::vector<SpanTree> find(const RecentQuery& query) const;

 private:
  struct Kept {
    std::string tenant;
    SpanTree spans;
    std::size_t num_bytes;
  };

  const std::size_t max_requests_;
  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::deque<Kept> requests_;
  std::size_t num_bytes_ = 0;
};

}  // namespace troupe
