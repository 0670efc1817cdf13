// SPDX-License-Identifier: Apache-2.0
#include "telemetry/tracing/recent_spans.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

RecentSpans::RecentSpans(std::size_t max_requests, std::size_t max_bytes)
    : max_requests_(max_requests), max_bytes_(max_bytes) {}

void RecentSpans::add(const std::string& tenant, SpanTree request) {
  Kept kept{.tenant = tenant, .spans = std::move(request), .num_bytes = 0};
  kept.num_bytes = sizeof kept + kept.tenant.size() + count_bytes(*kept.spans);
  if (!keeps_any() || kept.num_bytes > max_bytes_) return;
  std::vector<SpanTree> dropped;  // freed outside of the lock
  const std::lock_guard lock(mutex_);
  num_bytes_ += kept.num_bytes;
  requests_.push_back(std::move(kept));
  while (requests_.size() > max_requests_ || num_bytes_ > max_bytes_) {
    num_bytes_ -= requests_.front().num_bytes;
    dropped.push_back(std::move(requests_.front().spans));
    requests_.pop_front();
  }
}

std::vector<SpanTree> RecentSpans::find(const RecentQuery& query) const {
  std::vector<SpanTree> found;
  {
    const std::lock_guard lock(mutex_);
    for (auto kept = requests_.rbegin(); kept != requests_.rend() && found.size() < query.limit; ++kept) {
      if (query.tenant && *query.tenant != kept->tenant) continue;
      if (kept->spans->front().end_unix_nanoseconds > query.ended_after) found.push_back(kept->spans);
    }
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace troupe
