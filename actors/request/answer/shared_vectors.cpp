// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/shared_vectors.hpp"

#include <utility>

namespace troupe {

std::optional<std::vector<float>> SharedVectors::find(const std::string& tenant, const VectorInput& input,
                                                      VectorCache::TimePoint now) {
  const std::lock_guard lock(mutex_);
  const std::vector<float>* found = cache_.find(tenant, input, now);
  metrics_.vector_cache_queries.add();
  metrics_.vector_cache_bytes.set(static_cast<double>(cache_.num_bytes()));
  if (found == nullptr) return std::nullopt;
  metrics_.vector_cache_hits.add();
  return *found;
}

void SharedVectors::put(const std::string& tenant, VectorInput input, std::vector<float> vector,
                        VectorCache::TimePoint now) {
  const std::lock_guard lock(mutex_);
  cache_.put(tenant, std::move(input), std::move(vector), now);
  metrics_.vector_cache_bytes.set(static_cast<double>(cache_.num_bytes()));
}

}  // namespace troupe
