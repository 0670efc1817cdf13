// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/length_buckets.hpp"

#include <optional>

namespace troupe {

std::vector<std::size_t> LengthBuckets::take_turn(std::span<const std::uint32_t> lengths,
                                                  std::size_t max_batch) {
  // Unsigned: buckets in front of the next one are the furthest behind it.
  std::optional<std::uint32_t> nearest;
  for (const std::uint32_t length : lengths) {
    const std::uint32_t distance = bucket_of(length) - next_;
    if (!nearest || distance < *nearest) nearest = distance;
  }
  std::vector<std::size_t> batch;
  if (!nearest) return batch;
  const std::uint32_t chosen = next_ + *nearest;
  for (std::size_t i = 0; i < lengths.size() && batch.size() < max_batch; ++i)
    if (bucket_of(lengths[i]) == chosen) batch.push_back(i);
  next_ = chosen + 1;
  return batch;
}

}  // namespace troupe
