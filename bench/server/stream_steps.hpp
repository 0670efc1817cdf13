// SPDX-License-Identifier: Apache-2.0
// Time of an iteration, read off streams that joined and left at different batches:
// between the moment when the last one has begun and the moment when the first one
// ends all of them run, and the tokens of one stream in between count the iterations.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace troupe::bench {

struct StreamToken {
  std::chrono::steady_clock::time_point time;
  std::uint32_t num_tokens = 0;  // of the stream by then
};
using StreamTokens = std::vector<StreamToken>;  // in order of time, at least one

// Seconds; not a number where no two tokens of the stream that ends first lie in that time.
inline double seconds_per_step(std::span<const StreamTokens> streams) {
  const StreamTokens* first_to_end = &streams.front();
  auto all_run = streams.front().front().time;
  for (const StreamTokens& stream : streams) {
    all_run = std::max(all_run, stream.front().time);
    if (stream.back().time < first_to_end->back().time) first_to_end = &stream;
  }
  const StreamToken& end = first_to_end->back();
  const auto begin = std::find_if(first_to_end->begin(), first_to_end->end(),
                                  [&](const StreamToken& token) { return token.time >= all_run; });
  if (begin == first_to_end->end() || begin->num_tokens >= end.num_tokens)
    return std::numeric_limits<double>::quiet_NaN();
  return std::chrono::duration<double>(end.time - begin->time).count() / (end.num_tokens - begin->num_tokens);
}

}  // namespace troupe::bench
