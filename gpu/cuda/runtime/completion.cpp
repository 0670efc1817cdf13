// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/runtime/completion.hpp"

#include <cuda_runtime.h>
#include <sys/prctl.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// A poller looks without pause for so long, then lets other threads run between
// looks, then sleeps between them. A decode step of a large model takes some
// milliseconds, and the core is of use to others.
constexpr std::chrono::microseconds kSpin{50};
constexpr std::chrono::microseconds kYield{2000};
constexpr std::chrono::microseconds kNap{20};
// Naps end so much late at most; Linux allows itself 50 µs otherwise.
constexpr unsigned long kTimerSlackNanoseconds = 1000;
// How often the stream is asked whether it has failed: the word would stand
// still for ever.
constexpr std::chrono::milliseconds kErrorCheck{2};

// The word as the GPU leaves it there: it lies in memory that C++ knows nothing of.
std::uint64_t read_word(const std::uint64_t* word) {
  return std::atomic_ref<const std::uint64_t>(*word).load(std::memory_order_acquire);
}

class PolledWord final : public Completion {
 public:
  PolledWord(const std::uint64_t* word, const Stream& stream) : word_(word), stream_(stream) {}

  void queue(std::uint64_t, const Stream&) override {}

  bool wait(std::uint64_t number, const std::atomic<bool>& stop) override {
    if (!has_short_naps_) {
      has_short_naps_ = true;
      ::prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds);  // of this thread
    }
    const auto start = Clock::now();
    auto checked = start;
    while (read_word(word_) < number) {
      if (stop.load(std::memory_order_relaxed)) return false;
      const auto now = Clock::now();
      if (now - start < kSpin) continue;
      if (now - checked > kErrorCheck) {
        checked = now;
        (void)stream_.is_idle();  // throws what went wrong
      }
      if (now - start < kYield) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kNap);
      }
    }
    return true;
  }

 private:
  const std::uint64_t* word_;
  const Stream& stream_;
  bool has_short_naps_ = false;  // waiting thread only
};

class HostFunction final : public Completion {
 public:
  explicit HostFunction(const Stream& stream) : stream_(stream) {}

  void queue(std::uint64_t number, const Stream& stream) override {
    Call* call = nullptr;
    {
      const std::lock_guard lock(mutex_);
      call = &calls_.emplace_back(Call{this, number});
    }
    CUDA_CHECK(cudaLaunchHostFunc(stream.handle(), &HostFunction::be_called, call));
  }

  bool wait(std::uint64_t number, const std::atomic<bool>& stop) override {
    std::unique_lock lock(mutex_);
    while (done_ < number && !stop.load()) {
      // A host function is not called when the device has failed.
      if (changed_.wait_for(lock, kErrorCheck) == std::cv_status::timeout) (void)stream_.is_idle();
    }
    return done_ >= number;
  }

 private:
  struct Call {
    HostFunction* completion;
    std::uint64_t number;
  };

  static void be_called(void* data) {
    auto& [completion, number] = *static_cast<Call*>(data);
    HostFunction& self = *completion;
    {
      const std::lock_guard lock(self.mutex_);
      self.done_ = number;
      self.calls_.pop_front();  // this one
    }
    self.changed_.notify_one();
  }

  const Stream& stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;  // not yet made; they never are when the device has failed
  std::uint64_t done_ = 0;
};

class RecordedEvent final : public Completion {
 public:
  void queue(std::uint64_t number, const Stream& stream) override {
    Recorded recorded{number, Event()};
    recorded.event.record(stream);
    const std::lock_guard lock(mutex_);
    recorded_.push_back(std::move(recorded));
  }

  bool wait(std::uint64_t number, const std::atomic<bool>& stop) override {
    while (!stop.load()) {
      std::unique_lock lock(mutex_);
      if (recorded_.empty()) {  // about to be queued
        lock.unlock();
        std::this_thread::yield();
        continue;
      }
      Recorded recorded = std::move(recorded_.front());
      recorded_.pop_front();
      lock.unlock();
      recorded.event.synchronize();
      if (recorded.number >= number) return true;
    }
    return false;
  }

 private:
  struct Recorded {
    std::uint64_t number;
    Event event;
  };
  std::mutex mutex_;
  std::deque<Recorded> recorded_;
};

}  // namespace

std::unique_ptr<Completion> make_completion(CompletionSignal signal, const std::uint64_t* word,
                                            const Stream& stream) {
  switch (signal) {
    case CompletionSignal::kHostFunction: return std::make_unique<HostFunction>(stream);
    case CompletionSignal::kEvent: return std::make_unique<RecordedEvent>();
    case CompletionSignal::kPolledWord: break;
  }
  return std::make_unique<PolledWord>(word, stream);
}

}  // namespace troupe::cuda
