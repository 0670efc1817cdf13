// SPDX-License-Identifier: Apache-2.0
// How long a batch should take, from how long those before it took: a fixed
// part and a part for each token, both followed slowly. Used to tell a long
// prefill from a dead device.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe {

class IterationTime {
 public:
  void observe(std::uint32_t num_tokens, std::chrono::nanoseconds time);
  std::chrono::nanoseconds predict(std::uint32_t num_tokens) const;

 private:
  double nanoseconds_per_token_ = 0.0;
  double fixed_nanoseconds_ = 0.0;
};

// Without a finished batch for this long, tokens do not move.
std::chrono::nanoseconds stall_threshold(std::chrono::nanoseconds predicted);

}  // namespace troupe
