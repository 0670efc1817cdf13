// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/loading_progress.hpp"

namespace troupe {

std::optional<std::uint64_t> LoadingProgress::add(std::uint64_t number, TimePoint now) {
  const std::lock_guard lock(mutex_);
  done_ += number;
  if (done_ >= total_ || now - told_ < kInterval) return std::nullopt;
  told_ = now;
  return static_cast<std::uint64_t>(100.0 * static_cast<double>(done_) / static_cast<double>(total_));
}

}  // namespace troupe
