// SPDX-License-Identifier: Apache-2.0
// The place where a device finds the mask of a draw that was submitted before the mask was known: what may be
// drawn depends on the token before, which the batch in front draws. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/program/batch.hpp"

namespace troupe {

class MaskSlot {
 public:
  // A device waits so long at most, as a rule, from when it begins to sample.
  static constexpr std::chrono::nanoseconds kLongestWait{10'000'000};

  // The first call of the two counts.
  void set(std::shared_ptr<const TokenMask> mask);
  void close();  // none comes

  // Sleeps until the mask is there. Null: the slot was closed, or it is later than `deadline`.
  std::shared_ptr<const TokenMask> wait(std::chrono::steady_clock::time_point deadline);

 private:
  std::mutex mutex_;
  std::condition_variable is_settled_;
  bool has_settled_ = false;
  std::shared_ptr<const TokenMask> mask_;
};

// The masks that a batch awaited, one a slice; empty: it awaited none.
struct AwaitedMasks {
  std::vector<std::shared_ptr<const TokenMask>> masks;
  std::vector<std::int64_t> wait_nanoseconds;  // for which each held the sampler up
  std::chrono::nanoseconds asleep{0};          // altogether
};
// Waits for all of them together so long at most, and not at all for those of slices that draw nothing. The
// calling thread sleeps: the masks may need its core.
AwaitedMasks await_masks(const Batch& batch, std::chrono::nanoseconds longest,
                         const std::function<bool(std::size_t slice)>& draws);

}  // namespace troupe
