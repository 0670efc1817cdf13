// SPDX-License-Identifier: Apache-2.0
// CUDA's runtime on the CPU: what tests and twins of other libraries use of it
// beside CUDA's own functions (include/cuda_runtime_api.h).
//
// While a Runtime or a created stream lives, work is asynchronous: one thread
// (executor.hpp) runs one operation at a time, each after those before it in its
// stream and those it waits for, else in an order drawn from set_order()'s seed.
// Otherwise only the default stream exists, launches run at once on the caller
// and throw KernelError.
//
// As in CUDA: copies from pageable memory take the source at the call, copies to
// it return when they are done; copies of pinned memory read and write when the
// stream comes to them; an event that was never recorded has happened; the
// default stream and streams without cudaStreamNonBlocking wait for each other;
// what a graph has captured is copied, its branches run in any order; an error of
// the device is returned by every later call.
//
// Simplified or stricter:
// - A launch that a GPU refuses throws KernelError at the call.
// - Fresh memory is 0xFF throughout. cudaFree and its like wait for all work.
// - Copies of pageable memory and graph launches can't be captured; external
//   event flags and cudaStreamPerThread are refused.
// - Event queries and waits count as unsafe calls during a capture, as cudaMalloc.
// - An update of a graph only compares the types and edges of nodes.
// - Several GPUs are one that executes for all. Each has memory of its own, and streams
//   and events belong to the one that was current: work, and records, under another one
//   are refused (cudaErrorInvalidResourceHandle), copies included.
// - A launch that overlaps the kernel before it (programmatic dependent launch) runs behind it, as
//   all others, but shows a block none of that kernel's stores, in allocations of at most 1 MiB,
//   until the block waits for it; if the two run one after the other and were given to one stream.
// - Memory that a driver takes unasked is RuntimeSettings::costs: a context from the beginning, a
//   kernel's code at its first launch or capture, a graph when it is made executable.
// - Stream priorities, other launch attributes and clocks mean nothing.
// - After a failure, what frees or destroys does so and still returns the error.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe::simt {

// The memory of a GPU that is taken beside what is allocated. By default reports are exact.
struct MemoryCosts {
  std::size_t context_bytes = 0;
  std::size_t kernel_bytes = 0;  // code of a kernel, loaded when it is first launched
  std::size_t graph_bytes = 0;   // of each executable graph
};

struct RuntimeSettings {
  std::size_t memory_bytes = std::size_t{2} << 30;  // what cudaMalloc gives, of each GPU
  int num_multiprocessors = 8;
  int num_gpus = 1;  // the environment's SIMT_GPUS outside of a Runtime
  MemoryCosts costs = {};
};

// A device for one test; one at a time. At its end all work is waited for, or
// dropped after a failure and while it hangs. A KernelError that nobody has asked
// for is then printed and ends the process.
class Runtime {
 public:
  explicit Runtime(const RuntimeSettings& settings = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
};

// Puts work that counts as one kernel on a stream, as a launch does: it runs when
// the stream comes to it, or becomes a node of the graph that the stream captures
// and runs at every replay. `work` must own (copy) all its arguments. What it
// throws becomes the device's error. `code`: by which the kernel is loaded; null: it is part of the
// context. Returns what a launch would.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work, const void* code = nullptr);

// The same after the checks of a launch. Throws KernelError if a GPU refuses it.
cudaError_t launch_kernel(const LaunchConfig& config, cudaStream_t stream, std::function<void()> body);

// What the operation that broke the device said, if it was not told to fail; else
// empty. Stays until the next failure.
std::string last_kernel_error();

// The n-th kernel, copy, fill or host function from now on (1: the next), counted
// as they are given to streams, not as they run, fails with `error`; then the
// device is broken. Nodes of graphs count when the graph is launched. Only while
// work is asynchronous.
void fail_operation(std::uint64_t n, cudaError_t error = cudaErrorLaunchFailure);

// From now on nothing begins to run: who waits, waits for ever, until reset_device()
// or go_on().
void hang();
void go_on();

// Drops all work and forgets the failure, also as the caller's last error; memory
// and handles stay. Ends the process as ~Runtime does.
void reset_device();

// Kernels since the process began, those of graph launches and enqueue() too,
// counted when they are given to a stream.
std::uint64_t kernels_launched();

// Launches that were held to the table of machine code (interpreter/compiled_kernels.hpp).
std::uint64_t kernels_held_to_table();

// Of those that have run: kernels that overlapped the one before them in their stream, which had
// let them start; and kernels that want another part of the memory of a multiprocessor as shared
// memory than the one before them, so that it must be empty in between.
std::uint64_t kernels_overlapped();
std::uint64_t carveout_changes();

// What was made and not given back.
struct LiveObjects {
  std::size_t allocations = 0;
  std::size_t pinned_allocations = 0;  // registered memory too
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t graphs = 0;
  std::size_t graph_execs = 0;
  std::size_t device_bytes = 0;
  friend bool operator==(const LiveObjects&, const LiveObjects&) = default;
};
LiveObjects live_objects();

}  // namespace troupe::simt
