// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/interpreter/fiber.hpp"

#include <sys/mman.h>

#include <new>

#include "tests/support/sanitizers.hpp"

#if defined(TROUPE_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(TROUPE_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace troupe::simt {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kStackBytes = 64 * 1024;  // sanitizers make frames several times larger

// The sanitizer keeps a shadow stack a real one. `keep` is where the leaving
// side stores its own, null when it leaves for good.
void tell_of_leaving([[maybe_unused]] void** keep, [[maybe_unused]] const void* stack,
                     [[maybe_unused]] std::size_t bytes) {
#if defined(TROUPE_ASAN)
  __sanitizer_start_switch_fiber(keep, stack, bytes);
#endif
}
void tell_of_arrival([[maybe_unused]] void* kept, [[maybe_unused]] const void** from,
                     [[maybe_unused]] std::size_t* from_bytes) {
#if defined(TROUPE_ASAN)
  __sanitizer_finish_switch_fiber(kept, from, from_bytes);
#endif
}

// The thread sanitizer keeps a thread's state a fiber. A function that is left by a
// jump and never returns must not be among its frames.
#if defined(TROUPE_TSAN)
#define TROUPE_NEVER_RETURNS __attribute__((no_sanitize("thread")))
void* current_state() { return __tsan_get_current_fiber(); }
void* new_state() { return __tsan_create_fiber(0); }
void end_state(void* state) {
  if (state != nullptr) __tsan_destroy_fiber(state);
}
__attribute__((no_sanitize("thread"))) void go_to_state(void* state) { __tsan_switch_to_fiber(state, 0); }
#else
#define TROUPE_NEVER_RETURNS
void* current_state() { return nullptr; }
void* new_state() { return nullptr; }
void end_state(void*) {}
void go_to_state(void*) {}
#endif

}  // namespace

Fiber::Fiber(std::byte* stack, std::size_t stack_bytes) : stack_(stack), stack_bytes_(stack_bytes) {
  forget_frames();
}

Fiber::~Fiber() { end_state(own_state_); }

// To the address sanitizer: those that were left where they stopped, and those of who had the memory before.
// Frames that have ended are forgotten by themselves, and all of a stack would cost more than most blocks.
void Fiber::forget_frames() {
#if defined(TROUPE_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(stack_, stack_bytes_);
#endif
}

void Fiber::start(const std::function<void()>* body) {
  if (!has_ended_) forget_frames();
  if (!has_ended_ || own_state_ == nullptr) {
    end_state(own_state_);
    own_state_ = new_state();
  }
  body_ = body;
  has_ended_ = false;
  error_ = nullptr;
  own_ = make_fcontext(stack_ + stack_bytes_, stack_bytes_, &Fiber::enter);
}

void Fiber::resume() {
  void* kept = nullptr;
  tell_of_leaving(&kept, stack_, stack_bytes_);
  resumer_state_ = current_state();
  const auto own = own_;
  go_to_state(own_state_);
  const transfer_t from = jump_fcontext(own, this);
  tell_of_arrival(kept, nullptr, nullptr);
  own_ = from.fctx;
}

void Fiber::suspend() {
  void* kept = nullptr;
  tell_of_leaving(&kept, resumer_stack_, resumer_stack_bytes_);
  const auto resumer = resumer_;
  go_to_state(resumer_state_);
  const transfer_t from = jump_fcontext(resumer, nullptr);
  tell_of_arrival(kept, &resumer_stack_, &resumer_stack_bytes_);
  resumer_ = from.fctx;
}

TROUPE_NEVER_RETURNS void Fiber::enter(transfer_t from) {
  auto& self = *static_cast<Fiber*>(from.data);
  tell_of_arrival(nullptr, &self.resumer_stack_, &self.resumer_stack_bytes_);
  self.resumer_ = from.fctx;
  self.run_body();
  self.has_ended_ = true;
  tell_of_leaving(nullptr, self.resumer_stack_, self.resumer_stack_bytes_);
  go_to_state(self.resumer_state_);
  jump_fcontext(self.resumer_, nullptr);
}

void Fiber::run_body() noexcept {
  try {
    (*body_)();
  } catch (...) {
    error_ = std::current_exception();
  }
}

void FiberPool::Unmap::operator()(std::byte* memory) const { munmap(memory, kGuardBytes + kStackBytes); }

Fiber& FiberPool::fiber(std::size_t index) {
  while (fibers_.size() <= index) {
    void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    stacks_.emplace_back(static_cast<std::byte*>(memory));
    if (mprotect(memory, kGuardBytes, PROT_NONE) != 0) throw std::bad_alloc();
    fibers_.push_back(std::make_unique<Fiber>(stacks_.back().get() + kGuardBytes, kStackBytes));
  }
  return *fibers_[index];
}

}  // namespace troupe::simt
