// SPDX-License-Identifier: Apache-2.0
// The copies of one batch, and how far they are: what a CUDA device would have
// as events between its copy stream and its compute stream.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/pages/copy_plan.hpp"

namespace troupe {

// The copy thread moves it on, the executor waits for it.
class BatchCopies {
 public:
  // follows: the number of the last batch that must be done first; 0: none.
  BatchCopies(std::vector<CopySegment> segments, std::size_t num_layers, std::uint64_t follows);

  const std::vector<CopySegment>& segments() const { return segments_; }
  std::uint64_t follows() const { return follows_; }
  std::chrono::steady_clock::time_point submitted() const { return submitted_; }

  // Copy thread. finish() and fail() end it: one of them, once.
  void layers_have_arrived(std::size_t count);
  void finish(std::vector<std::uint64_t> failed_loads);
  void fail(const std::string& reason);

  // Executor: until the layer's KV of all pages of the batch is there and may
  // be written. Throws std::runtime_error if it never will be.
  void wait_for_layer(std::size_t layer) const;
  // Until all is done. Returns the generations that could not be loaded, or
  // throws std::runtime_error.
  const std::vector<std::uint64_t>& wait_for_all() const;
  // Until they have ended, well or not: nothing is touched any more.
  void wait_for_end() const noexcept;

 private:
  // Layers arrived, then one of these.
  static constexpr std::uint32_t kDone = UINT32_MAX - 1;
  static constexpr std::uint32_t kFailed = UINT32_MAX;

  void advance(std::uint32_t progress);
  std::uint32_t wait_until_at_least(std::uint32_t progress) const noexcept;

  std::vector<CopySegment> segments_;
  std::uint64_t follows_;
  std::chrono::steady_clock::time_point submitted_;
  std::vector<std::uint64_t> failed_loads_;  // written before kDone
  std::string failure_;                      // written before kFailed
  std::atomic<std::uint32_t> progress_{0};
};

}  // namespace troupe
