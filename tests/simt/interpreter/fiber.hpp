// SPDX-License-Identifier: Apache-2.0
// A thread of a kernel, run on the CPU: a function with a stack of its own that
// can stop in its middle and go on later. Boost.Context switches stacks; the
// address and thread sanitizers are told of every switch. One host thread at a
// time uses all fibers.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace troupe::simt {

class Fiber {
 public:
  // The stack stays the caller's; a page below it must not be accessible.
  Fiber(std::byte* stack, std::size_t stack_bytes);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next resume() begin `body`. Whatever ran here before is forgotten
  // where it stopped; its frames are not unwound.
  void start(const std::function<void()>* body);

  // Runs until the body suspends or ends.
  void resume();
  // Called by the body: goes back to who resumed it.
  void suspend();

  bool has_ended() const { return has_ended_; }
  // What the body threw, if it ended so.
  std::exception_ptr error() const { return error_; }

 private:
  static void enter(boost::context::detail::transfer_t from);
  void run_body() noexcept;
  void forget_frames();

  std::byte* stack_;
  std::size_t stack_bytes_;
  const std::function<void()>* body_ = nullptr;
  boost::context::detail::fcontext_t own_ = nullptr;      // where the body stopped
  boost::context::detail::fcontext_t resumer_ = nullptr;  // who resumed it
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_stack_bytes_ = 0;
  void* own_state_ = nullptr;  // the thread sanitizer's, as resumer_state_
  void* resumer_state_ = nullptr;
  bool has_ended_ = true;
  std::exception_ptr error_;
};

// Fibers that are kept from launch to launch, each with a guard page below its
// stack.
class FiberPool {
 public:
  FiberPool() = default;
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  // Throws std::bad_alloc when no memory can be mapped.
  Fiber& fiber(std::size_t index);

 private:
  struct Unmap {
    void operator()(std::byte* memory) const;
  };
  std::vector<std::unique_ptr<std::byte, Unmap>> stacks_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
};

}  // namespace troupe::simt
