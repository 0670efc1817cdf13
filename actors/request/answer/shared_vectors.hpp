// SPDX-License-Identifier: Apache-2.0
// The cache of vectors (policy/vectors/vector_cache.hpp) in front of all encoders of a server,
// for the requests that look there before they queue. Counts what it is asked. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "policy/vectors/vector_cache.hpp"
#include "telemetry/metrics/metrics.hpp"

namespace troupe {

class SharedVectors {
 public:
  SharedVectors(std::size_t max_bytes, std::chrono::nanoseconds keep_for, const Metrics& metrics)
      : metrics_(metrics), cache_(max_bytes, keep_for) {}

  std::optional<std::vector<float>> find(const std::string& tenant, const VectorInput& input,
                                         VectorCache::TimePoint now);
  void put(const std::string& tenant, VectorInput input, std::vector<float> vector,
           VectorCache::TimePoint now);

 private:
  const Metrics& metrics_;
  std::mutex mutex_;
  VectorCache cache_;
};

}  // namespace troupe
