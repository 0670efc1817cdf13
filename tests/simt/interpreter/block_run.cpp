// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/interpreter/block_run.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "tests/simt/interpreter/kernel_error.hpp"
#include "tests/support/sanitizers.hpp"

namespace troupe::simt {
namespace {

#if defined(TROUPE_ASAN)
constexpr std::size_t kFenceBytes = 0;  // the sanitizer has its own
#else
constexpr std::size_t kFenceBytes = 256;
#endif
constexpr std::align_val_t kSharedAlignment{128};
constexpr int kNeverWritten = 0xFF;  // NaN in every float format
constexpr std::byte kFence{0xA5};
constexpr std::size_t kCopyBytes = 16;

BlockRun* running = nullptr;

bool same_place(const std::source_location& left, const std::source_location& right) {
  return left.line() == right.line() && left.column() == right.column() &&
         (left.file_name() == right.file_name() || std::strcmp(left.file_name(), right.file_name()) == 0);
}

std::string hex(std::uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08x", mask);
  return text;
}

}  // namespace

BlockRun& running_block() {
  if (running == nullptr) throw KernelError("device code was called outside a kernel");
  return *running;
}

BlockRun::SharedMemory::SharedMemory(std::size_t size_bytes)
    : size_bytes_(size_bytes),
      memory_(static_cast<std::byte*>(::operator new(size_bytes + kFenceBytes, kSharedAlignment))) {
  std::fill_n(memory_ + size_bytes, kFenceBytes, kFence);
}

void BlockRun::SharedMemory::forget() { std::memset(memory_, kNeverWritten, size_bytes_); }

BlockRun::SharedMemory::~SharedMemory() { ::operator delete(memory_, kSharedAlignment); }

bool BlockRun::SharedMemory::is_intact() const {
  const std::byte* fence = memory_ + size_bytes_;
  return std::all_of(fence, fence + kFenceBytes, [](std::byte b) { return b == kFence; });
}

BlockRun::BlockRun(Setup setup) : setup_(std::move(setup)), shared_(setup_.dynamic_shared_bytes) {
  const Index3 size = setup_.block_size;
  threads_.resize(std::size_t{size.x} * size.y * size.z);
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    threads_[i].fiber = &setup_.fibers->fiber(i);
    threads_[i].index = {static_cast<unsigned>(i % size.x), static_cast<unsigned>(i / size.x % size.y),
                         static_cast<unsigned>(i / size.x / size.y)};
  }
  warps_.resize((threads_.size() + kWarpLanes - 1) / kWarpLanes);
}

void BlockRun::begin(Index3 block, const std::function<void()>& body) {
  block_ = block;
  random_.seed(
      static_cast<unsigned>(setup_.seed * 2654435761U + block.x * 40503U + block.y * 97U + block.z + 1));
  shared_.forget();
  for (Thread& thread : threads_) {
    thread.state = State::kRunnable;
    thread.copies.clear();
    thread.num_groups = 0;
    thread.has_waited = false;
    thread.fiber->start(&body);
  }
  std::iota(warps_.begin(), warps_.end(), 0);
  lets_next_kernel_start_ = false;
}

void BlockRun::run(Index3 block, const std::function<void()>& body) {
  begin(block, body);
  struct Running {
    explicit Running(BlockRun* block) { running = block; }
    ~Running() { running = nullptr; }
  } const guard(this);
  struct Hiding {
    explicit Hiding(BlockRun* block) : block(block) {
      if (block->setup_.previous_stores == nullptr) return;
      block->setup_.previous_stores->hide();
      block->are_stores_hidden_ = true;
    }
    ~Hiding() {
      if (block->are_stores_hidden_) (void)block->setup_.previous_stores->show();
    }
    BlockRun* block;
  } const hiding(this);
  while (run_next_warp() || release_barrier() || end_prologue()) {
  }
  const auto has_ended = [](const Thread& thread) { return thread.state == State::kEnded; };
  if (!std::all_of(threads_.begin(), threads_.end(), has_ended)) {
    throw KernelError(name_of_block() + ": threads wait for each other: " + describe_waits());
  }
  check_waits();
  if (!shared_.is_intact()) {
    throw KernelError(name_of_block() + ": wrote behind its " + std::to_string(setup_.dynamic_shared_bytes) +
                      " bytes of dynamic shared memory");
  }
}

void BlockRun::begin_copy(void* shared, const void* global, bool is_wanted) {
  std::memset(shared, kNeverWritten, kCopyBytes);
  Thread& thread = threads_[running_];
  thread.copies.push_back(
      {.shared = shared, .global = global, .is_wanted = is_wanted, .group = thread.num_groups});
}

// What is on its way may have been read by now.
void BlockRun::show_previous_stores() {
  if (!are_stores_hidden_) return;
  for (Thread& thread : threads_) {
    for (Copy& copy : thread.copies) {
      if (copy.is_wanted) std::memcpy(copy.bytes.data(), copy.global, kCopyBytes);
      copy.is_read = true;
    }
  }
  are_stores_hidden_ = false;
  if (!setup_.previous_stores->show()) {
    throw KernelError(name_of_block() + ": stored where the kernel before it does, without waiting for it");
  }
}

bool BlockRun::end_prologue() {
  bool has_ended = false;
  for (Thread& thread : threads_) {
    if (thread.state != State::kAtPreviousKernel) continue;
    thread.state = State::kRunnable;
    has_ended = true;
  }
  if (has_ended) show_previous_stores();
  return has_ended;
}

void BlockRun::wait_for_previous_kernel() {
  Thread& thread = threads_[running_];
  thread.has_waited = true;
  if (!are_stores_hidden_) return;
  thread.state = State::kAtPreviousKernel;
  thread.fiber->suspend();
}

void BlockRun::let_next_kernel_start() {
  if (setup_.overlaps_previous && !threads_[running_].has_waited) {
    throw KernelError(name_of_block() +
                      ": lets the next kernel start before it has waited for the one before");
  }
  lets_next_kernel_start_ = true;
}

// Else the kernel could end, and let others begin, before the one in front of it has ended.
void BlockRun::check_waits() const {
  if (!setup_.overlaps_previous) return;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].has_waited) continue;
    throw KernelError(name_of_block() + ": thread " + std::to_string(i) +
                      " has ended without waiting for the kernel before, which the launch overlaps");
  }
}

void BlockRun::end_copy_group() { ++threads_[running_].num_groups; }

void BlockRun::wait_for_copies(std::size_t groups_left) {
  Thread& thread = threads_[running_];
  const auto is_awaited = [&](const Copy& copy) { return copy.group + groups_left < thread.num_groups; };
  for (const Copy& copy : thread.copies) {
    if (!is_awaited(copy)) continue;
    if (copy.is_wanted)
      std::memcpy(copy.shared, copy.is_read ? copy.bytes.data() : copy.global, kCopyBytes);
    else
      std::memset(copy.shared, 0, kCopyBytes);
  }
  std::erase_if(thread.copies, is_awaited);
}

bool BlockRun::run_next_warp() {
  const auto can_run = [&](std::size_t warp) {
    const auto first = threads_.begin() + static_cast<std::ptrdiff_t>(warp * kWarpLanes);
    return std::any_of(first, first + static_cast<std::ptrdiff_t>(lanes_of(warp)),
                       [](const Thread& thread) { return thread.state == State::kRunnable; });
  };
  // Mostly the same warp again, as far as it goes.
  if (setup_.seed != 0 && random_() % 4 == 0) std::shuffle(warps_.begin(), warps_.end(), random_);
  const auto found = std::find_if(warps_.begin(), warps_.end(), can_run);
  if (found == warps_.end()) return false;
  run_warp(*found);
  perform_warp_operations(*found);
  return true;
}

void BlockRun::run_warp(std::size_t warp) {
  std::array<std::size_t, kWarpLanes> order;
  const std::size_t num_lanes = lanes_of(warp);
  std::iota(order.begin(), order.begin() + num_lanes, warp * kWarpLanes);
  if (setup_.seed != 0) std::shuffle(order.begin(), order.begin() + num_lanes, random_);
  for (std::size_t i = 0; i < num_lanes; ++i) {
    Thread& thread = threads_[order[i]];
    if (thread.state != State::kRunnable) continue;
    running_ = order[i];
    setup_.set_thread(thread.index);
    thread.fiber->resume();
    if (!thread.fiber->has_ended()) continue;
    thread.state = State::kEnded;
    if (thread.fiber->error()) std::rethrow_exception(thread.fiber->error());
  }
}

void BlockRun::perform_warp_operations(std::size_t warp) {
  for (std::size_t lane = 0; lane < lanes_of(warp); ++lane) {
    const Thread& first = threads_[warp * kWarpLanes + lane];
    if (first.state != State::kInWarpOperation || !have_all_arrived(warp, first.operation)) continue;
    const std::uint32_t mask = first.operation.mask;
    std::array<const WarpOperation*, kWarpLanes> operations{};
    for (unsigned other = 0; other < kWarpLanes; ++other) {
      if ((mask >> other & 1U) != 0) {
        operations[other] = &threads_[warp * kWarpLanes + other].operation;
      }
    }
    const WarpResults results = perform(mask, operations);
    for (unsigned other = 0; other < kWarpLanes; ++other) {
      if ((mask >> other & 1U) == 0) continue;
      threads_[warp * kWarpLanes + other].result = results[other];
      threads_[warp * kWarpLanes + other].state = State::kRunnable;
    }
  }
}

// Throws when a lane of the mask can never come.
bool BlockRun::have_all_arrived(std::size_t warp, const WarpOperation& operation) const {
  bool all = true;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if ((operation.mask >> lane & 1U) == 0) continue;
    const bool exists = lane < lanes_of(warp);
    if (!exists || threads_[warp * kWarpLanes + lane].state == State::kEnded) {
      throw KernelError(name_of_block() + ", warp " + std::to_string(warp) + ": " + name_of(operation.kind) +
                        " at " + text_of(operation.where) + " with mask " + hex(operation.mask) +
                        " waits for lane " + std::to_string(lane) + ", which " +
                        (exists ? "has ended" : "does not exist"));
    }
    const Thread& thread = threads_[warp * kWarpLanes + lane];
    all = all && thread.state == State::kInWarpOperation && thread.operation.kind == operation.kind &&
          thread.operation.mask == operation.mask && same_place(thread.operation.where, operation.where);
  }
  return all;
}

bool BlockRun::release_barrier() {
  int count = 0;
  for (const auto& thread : threads_) {
    if (thread.state != State::kAtBarrier || thread.barrier != threads_[0].barrier ||
        !same_place(thread.where, threads_[0].where)) {
      return false;
    }
    count += thread.predicate ? 1 : 0;
  }
  for (auto& thread : threads_) {
    thread.state = State::kRunnable;
    switch (thread.barrier) {
      case BarrierKind::kPlain: break;
      case BarrierKind::kCount: thread.result = static_cast<std::uint64_t>(count); break;
      case BarrierKind::kAnd:
        thread.result = static_cast<std::size_t>(count) == threads_.size() ? 1 : 0;
        break;
      case BarrierKind::kOr: thread.result = count > 0 ? 1 : 0; break;
    }
  }
  return true;
}

int BlockRun::wait_at_barrier(BarrierKind kind, bool predicate, std::source_location where) {
  Thread& thread = threads_[running_];
  thread.state = State::kAtBarrier;
  thread.barrier = kind;
  thread.predicate = predicate;
  thread.where = where;
  thread.fiber->suspend();
  return static_cast<int>(thread.result);
}

std::uint64_t BlockRun::take_part(const WarpOperation& operation) {
  const std::size_t lane = running_ % kWarpLanes;
  if ((operation.mask >> lane & 1U) == 0) {
    throw KernelError(name_of_block() + ", warp " + std::to_string(running_ / kWarpLanes) + ": " +
                      name_of(operation.kind) + " at " + text_of(operation.where) + ": lane " +
                      std::to_string(lane) + " is not in its own mask " + hex(operation.mask));
  }
  Thread& thread = threads_[running_];
  thread.state = State::kInWarpOperation;
  thread.operation = operation;
  thread.fiber->suspend();
  return thread.result;
}

std::uint32_t BlockRun::lanes_not_ended() const {
  const std::size_t warp = running_ / kWarpLanes;
  std::uint32_t mask = 0;
  for (std::size_t lane = 0; lane < lanes_of(warp); ++lane) {
    if (threads_[warp * kWarpLanes + lane].state != State::kEnded) mask |= 1U << lane;
  }
  return mask;
}

std::size_t BlockRun::lanes_of(std::size_t warp) const {
  return std::min<std::size_t>(kWarpLanes, threads_.size() - warp * kWarpLanes);
}

std::string BlockRun::name_of_block() const {
  return "block (" + std::to_string(block_.x) + ", " + std::to_string(block_.y) + ", " +
         std::to_string(block_.z) + ")";
}

// "threads 0-63: __syncthreads at x.cu:3; threads 64-127: ended"
std::string BlockRun::describe_waits() const {
  std::string text;
  for (std::size_t first = 0; first < threads_.size();) {
    const std::string wait = describe(threads_[first]);
    std::size_t last = first;
    while (last + 1 < threads_.size() && describe(threads_[last + 1]) == wait) ++last;
    text += (text.empty() ? "" : "; ");
    text += first == last ? "thread " + std::to_string(first)
                          : "threads " + std::to_string(first) + "-" + std::to_string(last);
    text += ": " + wait;
    first = last + 1;
  }
  return text;
}

std::string BlockRun::describe(const Thread& thread) const {
  switch (thread.state) {
    case State::kRunnable: return "running";
    case State::kAtPreviousKernel: return "cudaGridDependencySynchronize";
    case State::kEnded: return "ended";
    case State::kAtBarrier: return "__syncthreads at " + text_of(thread.where);
    case State::kInWarpOperation:
      return std::string(name_of(thread.operation.kind)) + " at " + text_of(thread.operation.where) +
             " with mask " + hex(thread.operation.mask);
  }
  return "?";
}

}  // namespace troupe::simt
