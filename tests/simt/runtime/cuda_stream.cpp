// SPDX-License-Identifier: Apache-2.0
// CUDA's functions about streams and events.
#include "tests/simt/runtime/runtime_state.hpp"

using troupe::simt::call;
using troupe::simt::call_always;
using troupe::simt::RuntimeState;

// ---- streams ----

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call([&](RuntimeState& state) {
    if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = state.create_stream(flags, priority);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call_always([&](RuntimeState& state) { return state.destroy_stream(stream); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return call([&](RuntimeState& state) { return state.describe_stream(stream, flags, nullptr); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return call([&](RuntimeState& state) { return state.describe_stream(stream, nullptr, priority); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call([&](RuntimeState& state) { return state.query_stream(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call([&](RuntimeState& state) { return state.wait_for_stream(stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call([&](RuntimeState& state) {
    return flags == cudaEventWaitDefault ? state.wait_for_event(stream, event) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  return call([&](RuntimeState& state) {
    if (function == nullptr) return cudaErrorInvalidValue;
    return state.issue(stream, {cudaGraphNodeTypeHost, [=] { function(user_data); }});
  });
}

// ---- events ----

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](RuntimeState& state) {
    if (event == nullptr || flags > (cudaEventBlockingSync | cudaEventDisableTiming)) {
      return cudaErrorInvalidValue;
    }
    *event = state.create_event(flags);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call_always([&](RuntimeState& state) { return state.destroy_event(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&](RuntimeState& state) { return state.record_event(event, stream); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call([&](RuntimeState& state) {
    return flags == cudaEventRecordDefault ? state.record_event(event, stream) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](RuntimeState& state) {
    const cudaError_t error = state.check_unsafe_call();
    return error == cudaSuccess ? state.query_event(event) : error;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](RuntimeState& state) {
    const cudaError_t error = state.check_unsafe_call();
    return error == cudaSuccess ? state.wait_for_event(event) : error;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&](RuntimeState& state) {
    return milliseconds == nullptr ? cudaErrorInvalidValue : state.elapsed_time(milliseconds, start, end);
  });
}
