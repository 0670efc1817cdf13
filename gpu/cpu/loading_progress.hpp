// SPDX-License-Identifier: Apache-2.0
// How far the loading of weights is, told every two seconds: large models take a minute on a slow disk, in
// which a start without a word looks like one that hangs.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

namespace troupe {

// Any thread.
class LoadingProgress {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kInterval{2};

  // total: of what add() counts.
  LoadingProgress(std::uint64_t total, TimePoint begin) : total_(total), told_(begin) {}

  // So much more is loaded. The whole percent that is, if it is to be told now: it isn't all, and nothing
  // was told for kInterval.
  std::optional<std::uint64_t> add(std::uint64_t number, TimePoint now);

 private:
  std::mutex mutex_;
  const std::uint64_t total_;
  std::uint64_t done_ = 0;
  TimePoint told_;
};

}  // namespace troupe
