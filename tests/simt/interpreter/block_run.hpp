// SPDX-License-Identifier: Apache-2.0
// Runs the threads of a kernel's blocks on the CPU, one block at a time, as a GPU may: warp by
// warp, each until all its lanes wait at the block's barrier or have ended, the
// lanes of a warp one after another up to the next thing they do together. The
// order is drawn from a seed: what is right only in some order fails in another.
//
// Found and reported (KernelError): threads at a barrier while others have ended
// or wait elsewhere; lanes in a mask that never come, have ended or don't exist;
// a shuffle that reads a lane outside the mask; writes behind the end of dynamic
// shared memory (the address sanitizer also finds reads). Stricter than a GPU:
// a barrier or mask that counts on threads which have ended is an error, and an
// asynchronous copy is never there before it is waited for. A block of a launch that
// overlaps the kernel before it sees nothing of that one's stores until it waits for
// it, and each of its threads must.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <random>
#include <source_location>
#include <string>
#include <vector>

#include "tests/simt/interpreter/fiber.hpp"
#include "tests/simt/interpreter/hidden_stores.hpp"
#include "tests/simt/interpreter/warp_operation.hpp"

namespace troupe::simt {

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

enum class BarrierKind : std::uint8_t { kPlain, kCount, kAnd, kOr };

class BlockRun {
 public:
  // `set_thread` is called each time before a thread goes on.
  struct Setup {
    FiberPool* fibers = nullptr;
    Index3 block_size;
    std::size_t dynamic_shared_bytes = 0;
    std::uint64_t seed = 0;                   // 0: ascending order
    bool overlaps_previous = false;           // programmatic dependent launch
    HiddenStores* previous_stores = nullptr;  // with overlaps_previous, or none
    std::function<void(Index3 thread)> set_thread;
  };
  explicit BlockRun(Setup setup);

  // Runs one block. Throws what a thread threw, or KernelError; then no other block may follow.
  void run(Index3 block, const std::function<void()>& body);

  // What the threads call while they run.
  int wait_at_barrier(BarrierKind kind, bool predicate, std::source_location where);
  std::uint64_t take_part(const WarpOperation& operation);
  std::uint32_t lanes_not_ended() const;  // of the calling thread's warp
  // Asynchronous copies of 16 bytes into shared memory, of zeros if not wanted. What is there is
  // lost at once; the bytes come when the thread waits for their group, and not before.
  void begin_copy(void* shared, const void* global, bool is_wanted);
  void end_copy_group();
  void wait_for_copies(std::size_t groups_left);  // all of the thread's groups but the last so many
  // The first of them takes effect when no thread of the block can go on without it.
  void wait_for_previous_kernel();
  void let_next_kernel_start();
  bool lets_next_kernel_start() const { return lets_next_kernel_start_; }  // a thread has said so
  std::byte* dynamic_shared() { return shared_.data(); }
  std::size_t dynamic_shared_bytes() const { return setup_.dynamic_shared_bytes; }

 private:
  enum class State : std::uint8_t { kRunnable, kAtBarrier, kInWarpOperation, kAtPreviousKernel, kEnded };
  struct Copy {
    void* shared = nullptr;
    const void* global = nullptr;
    bool is_wanted = false;
    std::size_t group = 0;
    bool is_read = false;  // in front of the wait for the kernel before
    std::array<std::byte, 16> bytes{};
  };
  struct Thread {
    Fiber* fiber = nullptr;
    Index3 index;
    State state = State::kRunnable;
    WarpOperation operation;
    std::uint64_t result = 0;
    BarrierKind barrier = BarrierKind::kPlain;
    bool predicate = false;
    std::source_location where;  // of the barrier
    std::vector<Copy> copies;    // begun and not waited for
    std::size_t num_groups = 0;  // ended
    bool has_waited = false;     // for the kernel before
  };
  // Memory of exactly the size asked for, followed (without a sanitizer) by
  // bytes that are compared at the end.
  class SharedMemory {
   public:
    explicit SharedMemory(std::size_t size_bytes);
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    std::byte* data() { return memory_; }
    void forget();
    bool is_intact() const;

   private:
    std::size_t size_bytes_;
    std::byte* memory_;
  };

  void begin(Index3 block, const std::function<void()>& body);
  bool run_next_warp();  // false: no thread can go on
  void run_warp(std::size_t warp);
  void perform_warp_operations(std::size_t warp);
  bool have_all_arrived(std::size_t warp, const WarpOperation& operation) const;
  bool release_barrier();
  bool end_prologue();  // false: no thread waits for the kernel before
  void show_previous_stores();
  void check_waits() const;
  std::size_t lanes_of(std::size_t warp) const;
  std::string name_of_block() const;
  std::string describe_waits() const;
  std::string describe(const Thread& thread) const;

  Setup setup_;
  Index3 block_;
  SharedMemory shared_;
  std::minstd_rand random_;
  std::vector<Thread> threads_;
  std::vector<std::size_t> warps_;  // that may have runnable threads
  std::size_t running_ = 0;         // thread
  bool are_stores_hidden_ = false;
  bool lets_next_kernel_start_ = false;
};

// The block whose threads run now; only while a kernel runs.
BlockRun& running_block();

}  // namespace troupe::simt
