// SPDX-License-Identifier: Apache-2.0
// The time of a pass over a batch of whole inputs, from its tokens, as passes took of late:
//
//   time = fixed + per_token x tokens
//
// The fixed part is mostly the reading of weights. Without it a time per token that was learnt of large
// batches would be far too little for a small one, beside streams, and the other way round. The line is of
// least squares of relative errors, nothing negative, so that small passes count as much as large ones, are
// remembered behind many of these, and a pass that was held up counts for little. One that seems much shorter
// than expected counts as seven tenths of that, once enough passes are known to expect anything.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe {

// One a worker: times differ between devices.
class PassTime {
 public:
  // A pass of no tokens, or of no time, is ignored.
  void observe(std::uint32_t num_tokens, std::chrono::nanoseconds time);

  // 0 while nothing is known.
  std::chrono::nanoseconds of(std::uint64_t num_tokens) const;
  // Tokens of a pass that takes no longer; UINT32_MAX while nothing is known. At most kMostGrowth times those
  // of a usual pass: the line is a guess far beyond what was seen. Where all passes have been alike, none for
  // less than their time.
  std::uint32_t tokens_within(std::chrono::nanoseconds time) const;

  static constexpr double kMostGrowth = 2;

 private:
  friend class Fingerprint;
  struct Line {
    double fixed = 0, per_token = 0;  // nanoseconds
  };
  double spread() const;
  bool has_one_length() const;
  Line line() const;

  std::uint32_t num_known_ = 0;  // passes, no more than are counted
  // Means over passes of n tokens and t nanoseconds, newer ones count more.
  double one_ = 0, token_ = 0, token_token_ = 0;  // of 1/t², n/t², n²/t²
  double time_ = 0, token_time_ = 0;              // of 1/t, n/t
};

}  // namespace troupe
