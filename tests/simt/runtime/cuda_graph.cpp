// SPDX-License-Identifier: Apache-2.0
// CUDA's functions about captures and graphs.
#include "tests/simt/runtime/runtime_state.hpp"

using troupe::simt::call;
using troupe::simt::call_always;
using troupe::simt::RuntimeState;

// ---- captures ----

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&](RuntimeState& state) { return state.begin_capture(stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&](RuntimeState& state) {
    return graph == nullptr ? cudaErrorInvalidValue : state.end_capture(stream, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call([&](RuntimeState& state) {
    return status == nullptr ? cudaErrorInvalidValue : state.capture_status(stream, status);
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call([&](RuntimeState&) {
    if (mode == nullptr) return cudaErrorInvalidValue;
    *mode = troupe::simt::exchange_capture_mode(*mode);
    return cudaSuccess;
  });
}

// ---- graphs ----

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return call([&](RuntimeState& state) {
    return exec == nullptr ? cudaErrorInvalidValue : state.instantiate(exec, graph);
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return call([&](RuntimeState& state) {
    const cudaError_t error = state.check_not_capturing(stream);
    return error == cudaSuccess ? state.check_exec(exec) : error;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call([&](RuntimeState& state) { return state.launch(exec, stream); });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  return call([&](RuntimeState& state) {
    return result == nullptr ? cudaErrorInvalidValue : state.update(exec, graph, result);
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call_always([&](RuntimeState& state) { return state.destroy(graph); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call_always([&](RuntimeState& state) { return state.destroy(exec); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([&](RuntimeState& state) {
    return count == nullptr ? cudaErrorInvalidValue : state.nodes_of(graph, nodes, count);
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call([&](RuntimeState&) {
    if (node == nullptr || type == nullptr) return cudaErrorInvalidValue;
    *type = node->work.type;
    return cudaSuccess;
  });
}
