// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/batch_copies.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

BatchCopies::BatchCopies(std::vector<CopySegment> segments, std::size_t num_layers, std::uint64_t follows)
    : segments_(std::move(segments)), follows_(follows), submitted_(std::chrono::steady_clock::now()) {
  // Nothing to wait for: it need not wait for the copy thread to say so either.
  if (segments_.size() == 1 && segments_[0].by_layer.empty())
    progress_ = static_cast<std::uint32_t>(num_layers);
}

void BatchCopies::layers_have_arrived(std::size_t count) { advance(static_cast<std::uint32_t>(count)); }

void BatchCopies::finish(std::vector<std::uint64_t> failed_loads) {
  failed_loads_ = std::move(failed_loads);
  advance(kDone);
}

void BatchCopies::fail(const std::string& reason) {
  failure_ = reason;
  advance(kFailed);
}

void BatchCopies::wait_for_layer(std::size_t layer) const {
  if (wait_until_at_least(static_cast<std::uint32_t>(layer) + 1) == kFailed)
    throw std::runtime_error(failure_);
}

const std::vector<std::uint64_t>& BatchCopies::wait_for_all() const {
  if (wait_until_at_least(kDone) == kFailed) throw std::runtime_error(failure_);
  return failed_loads_;
}

void BatchCopies::wait_for_end() const noexcept { wait_until_at_least(kDone); }

void BatchCopies::advance(std::uint32_t progress) {
  progress_.store(progress, std::memory_order_release);
  progress_.notify_all();
}

std::uint32_t BatchCopies::wait_until_at_least(std::uint32_t progress) const noexcept {
  std::uint32_t reached = progress_.load(std::memory_order_acquire);
  while (reached < progress) {
    progress_.wait(reached, std::memory_order_acquire);
    reached = progress_.load(std::memory_order_acquire);
  }
  return reached;
}

}  // namespace troupe
