// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/runtime/runtime.hpp"

#include <utility>

#include "tests/simt/runtime/runtime_state.hpp"

namespace troupe::simt {

Runtime::Runtime(const RuntimeSettings& settings) { RuntimeState::instance().begin(settings); }

Runtime::~Runtime() { RuntimeState::instance().end(); }

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return call([&](RuntimeState& state) {
    return state.issue(stream, {cudaGraphNodeTypeKernel, std::move(work)});
  });
}

cudaError_t launch_kernel(const LaunchConfig& config, cudaStream_t stream, std::function<void()> body) {
  check_launch(config);
  return enqueue(stream, [config, body = std::move(body)] { run_grid(config, body); });
}

std::string last_kernel_error() { return RuntimeState::instance().look_at_kernel_error(); }

void fail_operation(std::uint64_t n, cudaError_t error) { RuntimeState::instance().fail_operation(n, error); }

void hang() { RuntimeState::instance().hang(true); }

void go_on() { RuntimeState::instance().hang(false); }

void reset_device() { RuntimeState::instance().reset(); }

std::uint64_t kernels_launched() { return RuntimeState::instance().num_kernels(); }

LiveObjects live_objects() { return RuntimeState::instance().live_objects(); }

}  // namespace troupe::simt
