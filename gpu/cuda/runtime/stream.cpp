// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/runtime/stream.hpp"

#include <cuda_runtime.h>

#include <utility>

#include "gpu/cuda/runtime/cuda_check.hpp"

namespace troupe::cuda {
namespace {

bool is_done(cudaError_t status) {
  if (status == cudaErrorNotReady) return false;
  CUDA_CHECK(status);
  return true;
}

}  // namespace

Stream::Stream(Priority priority) {
  int lowest = 0;
  int highest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                          priority == Priority::kHigh ? highest : lowest));
}
Stream::~Stream() { (void)cudaStreamDestroy(stream_); }
void Stream::wait_for(const Event& event) const {
  CUDA_CHECK(cudaStreamWaitEvent(stream_, event.handle(), 0));
}
void Stream::synchronize() const { CUDA_CHECK(cudaStreamSynchronize(stream_)); }
bool Stream::is_idle() const { return is_done(cudaStreamQuery(stream_)); }

Event::Event() {
  CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync));
}
Event::~Event() {
  if (event_ != nullptr) (void)cudaEventDestroy(event_);
}
Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
void Event::record(const Stream& stream) const { CUDA_CHECK(cudaEventRecord(event_, stream.handle())); }
void Event::synchronize() const { CUDA_CHECK(cudaEventSynchronize(event_)); }

}  // namespace troupe::cuda
