// SPDX-License-Identifier: Apache-2.0
// Streams and events of a GPU, as owners.
#pragma once

#include <cstdint>

#include "gpu/cuda/runtime/stream_handle.hpp"

struct CUevent_st;

namespace troupe::cuda {

class Event;

// Does not wait for the legacy default stream. Calls throw CudaError.
class Stream {
 public:
  enum class Priority : std::uint8_t { kLow, kHigh };

  explicit Stream(Priority priority = Priority::kLow);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle handle() const { return stream_; }
  void wait_for(const Event& event) const;  // holds for work queued from now on
  void synchronize() const;
  // True if all work is done; throws the device's error.
  bool is_idle() const;

 private:
  StreamHandle stream_ = nullptr;
};

// Marks a place in a stream. One that was never recorded has happened.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;

  CUevent_st* handle() const { return event_; }
  void record(const Stream& stream) const;
  void synchronize() const;  // sleeps

 private:
  CUevent_st* event_ = nullptr;
};

}  // namespace troupe::cuda
