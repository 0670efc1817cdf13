// SPDX-License-Identifier: Apache-2.0
// A backend runs one model on one kind of device: CPU cores (gpu/host) or a GPU
// (gpu/cuda, a library that is loaded when it is wanted). In two steps: made, it
// has read the files' headers and divided the memory, and can say all numbers;
// only then does it allocate. The same interface stands before a backend in a
// child process (gpu/child), so what the server does is the same for all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/data_type.hpp"
#include "gpu/device.hpp"
#include "gpu/host/link_clock.hpp"
#include "gpu/memory_plan.hpp"

namespace troupe {

class HostPages;

// How a worker learns that a GPU's batch is done.
enum class CompletionSignal : std::uint8_t {
  kPolledWord,    // a kernel writes a word into host memory, a thread polls it
  kHostFunction,  // cudaLaunchHostFunc
  kEvent,         // cudaEventSynchronize on a thread
};

// Plain values: they travel to a child process.
struct BackendSettings {
  std::string model_dir;
  std::optional<DataType> compute_type = {};  // none: what suits model and device
  std::uint64_t memory_budget_bytes = 0;      // 0: from what is free
  std::uint32_t num_slots = 64;               // sequences that may run at once
  std::uint32_t max_batch_tokens = 512;
  std::uint32_t max_pages = 0;      // 0: as many as fit; a worker that follows another: as it had
  std::uint32_t max_in_flight = 2;  // batches submitted and not yet done
  // the host backend
  bool deterministic = true;
  std::uint32_t num_threads = 0;
  std::vector<std::int32_t> cpus = {};  // pins compute thread i to cpus[i]; empty: not pinned
  LinkSettings link = {};
  // CUDA
  std::uint32_t ordinal = 0;  // which GPU
  CompletionSignal completion = CompletionSignal::kPolledWord;
  bool uses_graphs = true;
  std::string product_choices;  // directory that keeps how products are computed; empty: not measured
};

struct BackendPlan {
  MemoryPlan memory;
  DataType compute_type = DataType::kF32;
  std::uint32_t context_length = 0;
  std::string device;       // "NVIDIA H200, 139 GiB, driver 13.0" or "host (2 threads, avx512-bf16)"
  std::string computation;  // all that decides a KV page's bytes but the files
  std::string summary;      // for one line of the log: "host, bf16, 2 threads"
};

// One thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendPlan& plan() const = 0;
  // The first call loads the weights. host_pages may be null: no host tier; pages
  // are of plan().memory.request.page_bytes. One device at a time. Throws
  // std::runtime_error.
  virtual std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages) = 0;
};

// Throw std::runtime_error: a file is missing or wrong, the model is not
// supported, it does not fit into memory, there is no such device.
std::unique_ptr<Backend> make_host_backend(const BackendSettings& settings);

// What the CUDA library exports, under the name of kCudaBackendSymbol.
using MakeBackend = std::unique_ptr<Backend> (*)(const BackendSettings& settings);
inline constexpr const char* kCudaBackendSymbol = "troupe_make_cuda_backend";

}  // namespace troupe
