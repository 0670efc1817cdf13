// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/interpreter/weak_memory.hpp"

#include <algorithm>

#include "tests/simt/interpreter/kernel_error.hpp"

namespace troupe::simt {
namespace {

WeakMemory* living = nullptr;

}  // namespace

WeakMemory* weak_memory() { return living; }

void pass_fence() {
  if (living != nullptr) living->fence();
}
void perform_atomic() {
  if (living != nullptr) living->perform_atomic();
}

WeakMemory::WeakMemory(std::span<std::byte> memory) : memory_(memory), state_(memory.size()) {
  if (living != nullptr) throw KernelError("there is weak memory already");
  living = this;
}

WeakMemory::~WeakMemory() { living = nullptr; }

void WeakMemory::begin_kernel() {
  at_start_.assign(memory_.begin(), memory_.end());
  shared_ = in_the_end_ = at_start_;
}

void WeakMemory::begin_block() {
  std::copy(at_start_.begin(), at_start_.end(), memory_.begin());
  known_ = at_start_;
  observed_.clear();
  std::fill(state_.begin(), state_.end(), State::kOthers);
}

void WeakMemory::take_new_stores() {
  if (std::equal(memory_.begin(), memory_.end(), known_.begin())) return;
  for (std::size_t at = 0; at < memory_.size(); ++at) {
    if (memory_[at] == known_[at]) continue;
    known_[at] = in_the_end_[at] = memory_[at];
    state_[at] = State::kStored;
  }
}

// Stores in front of it may be made known, and what was made known may be seen.
void WeakMemory::fence() {
  take_new_stores();
  for (std::size_t at = 0; at < memory_.size(); ++at) {
    if (state_[at] == State::kStored) state_[at] = State::kFenced;
    if (!observed_.empty() && !is_own(at)) known_[at] = memory_[at] = observed_[at];
  }
}

void WeakMemory::perform_atomic() {
  take_new_stores();
  for (std::size_t at = 0; at < memory_.size(); ++at) {
    if (state_[at] != State::kFenced) continue;
    shared_[at] = memory_[at];
    state_[at] = State::kShared;
  }
  observed_ = shared_;
}

void WeakMemory::end_block() { take_new_stores(); }

void WeakMemory::end_kernel() { std::copy(in_the_end_.begin(), in_the_end_.end(), memory_.begin()); }

}  // namespace troupe::simt
