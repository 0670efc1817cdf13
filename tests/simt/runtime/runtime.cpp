// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/runtime/runtime.hpp"

#include <atomic>
#include <utility>

#include "tests/simt/interpreter/compiled_kernels.hpp"
#include "tests/simt/runtime/runtime_state.hpp"

namespace troupe::simt {

Runtime::Runtime(const RuntimeSettings& settings) { RuntimeState::instance().begin(settings); }

Runtime::~Runtime() { RuntimeState::instance().end(); }

namespace {

std::atomic<std::uint64_t> held_to_table = 0;

cudaError_t enqueue_kernel(cudaStream_t stream, const void* code, StoreHistory::Kernel kernel) {
  kernel.stream = stream;
  return call([&](RuntimeState& state) {
    if (code != nullptr && !state.memory().load(code, current_gpu())) return cudaErrorMemoryAllocation;
    return state.issue(stream,
                       {cudaGraphNodeTypeKernel,
                        [&stores = state.stores(), kernel = std::move(kernel)] { stores.run(kernel); }});
  });
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work, const void* code) {
  return enqueue_kernel(stream, code, {.run = [work = std::move(work)](HiddenStores*) {
                          work();
                          return false;
                        }});
}

cudaError_t launch_kernel(const LaunchConfig& config, cudaStream_t stream, std::function<void()> body) {
  check_launch(config);
  if (compiled_kernel(config.kernel)) ++held_to_table;
  return enqueue_kernel(stream, config.kernel,
                        {.overlaps_previous = config.overlaps_previous,
                         .shared_carveout = shared_carveout(config.kernel),
                         .run = [config, body = std::move(body)](HiddenStores* previous_stores) {
                           return run_grid(config, body, previous_stores);
                         }});
}

std::string last_kernel_error() { return RuntimeState::instance().look_at_kernel_error(); }

void fail_operation(std::uint64_t n, cudaError_t error) { RuntimeState::instance().fail_operation(n, error); }

void hang() { RuntimeState::instance().hang(true); }

void go_on() { RuntimeState::instance().hang(false); }

void reset_device() { RuntimeState::instance().reset(); }

std::uint64_t kernels_launched() { return RuntimeState::instance().num_kernels(); }

std::uint64_t kernels_held_to_table() { return held_to_table; }

std::uint64_t kernels_overlapped() { return RuntimeState::instance().stores().num_overlaps(); }

std::uint64_t carveout_changes() { return RuntimeState::instance().stores().num_carveout_changes(); }

LiveObjects live_objects() { return RuntimeState::instance().live_objects(); }

}  // namespace troupe::simt
