// SPDX-License-Identifier: Apache-2.0
// Memory of which a block sees no more of other blocks' stores than CUDA's memory model promises:
// what another block had stored in front of a fence and behind that of an atomic operation, and only
// behind an atomic operation and a fence of its own. All else is as it was when the kernel began. Blocks
// run one after another, so without this a fence that is missing changes nothing.
//
// A test names the memory, since each fence compares all of it with what was there. A fence stands for
// all threads of its block that have run so far: one that only some threads pass is not found.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace troupe::simt {

// While it lives; one at a time, for kernels that run one after the other.
class WeakMemory {
 public:
  explicit WeakMemory(std::span<std::byte> memory);
  ~WeakMemory();
  WeakMemory(const WeakMemory&) = delete;
  WeakMemory& operator=(const WeakMemory&) = delete;

  // What others saw of it after the newest atomic operation.
  const std::vector<std::byte>& seen_by_others() const { return shared_; }

  void begin_kernel();
  void begin_block();
  void fence();
  void perform_atomic();
  void end_block();
  void end_kernel();

 private:
  void take_new_stores();
  bool is_own(std::size_t at) const { return state_[at] != State::kOthers; }

  // A byte's state in the view of the block that runs.
  enum class State : unsigned char { kOthers, kStored, kFenced, kShared };

  std::span<std::byte> memory_;      // what the block that runs sees
  std::vector<std::byte> at_start_;  // of the kernel
  std::vector<std::byte> known_;     // memory_ when it was looked at last
  std::vector<std::byte> shared_;    // stores that were fenced and then made known by an atomic operation
  std::vector<std::byte> observed_;  // shared_ at the block's newest atomic operation; empty: there was none
  std::vector<std::byte> in_the_end_;
  std::vector<State> state_;
};

// The twins of CUDA's functions call these for the thread that runs.
void pass_fence();
void perform_atomic();

// The one that lives, or null.
WeakMemory* weak_memory();

}  // namespace troupe::simt
