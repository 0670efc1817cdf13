// SPDX-License-Identifier: Apache-2.0
// A backend runs one model on one kind of device: CPU cores (gpu/cpu) or a GPU
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

#include "gpu/activations.hpp"
#include "gpu/data_type.hpp"
#include "gpu/device.hpp"
#include "gpu/memory_plan.hpp"
#include "gpu/pages/link_clock.hpp"

namespace troupe {

class CpuCores;
class HostPages;

// How a worker learns that a GPU's batch is done.
enum class CompletionSignal : std::uint8_t {
  kPolledWord,    // a kernel writes a word into host memory, a thread polls it
  kHostFunction,  // cudaLaunchHostFunc
  kEvent,         // cudaEventSynchronize on a thread
};

// Plain values: they travel to a child process.
struct BackendSettings {
  std::string model_dir;                      // or a GGUF file
  std::optional<DataType> compute_type = {};  // none: what suits model and device
  std::uint64_t memory_budget_bytes = 0;      // 0: from what is free
  std::uint32_t num_slots = 64;               // sequences that may run at once
  std::uint32_t max_batch_tokens = 512;
  std::uint32_t max_pages = 0;      // 0: as many as fit; a worker that follows another: as it had
  std::uint32_t max_in_flight = 2;  // batches submitted and not yet done; CUDA: 0: as the plan says
  // the CPU backend
  bool deterministic = true;
  Quantization quantization = Quantization::kKeep;   // of a decoder's weights
  KvType kv_type = KvType::kComputed;                // of its pages
  Activations activations = Activations::kComputed;  // of its products with blocks
  std::uint32_t num_threads = 0;                     // of each device
  std::uint32_t num_devices = 1;        // that share the weights, and divide what is left of the memory
  std::vector<std::int32_t> cpus = {};  // pins compute thread i to cpus[i]; empty: not pinned
  LinkSettings link = {};
  std::string kept_weights;  // directory that keeps packed weights; empty: they are packed each time
  std::uint64_t kept_weights_bytes = 0;  // of it, at most
  // CUDA
  std::uint32_t ordinal = 0;  // which GPU
  CompletionSignal completion = CompletionSignal::kPolledWord;
  bool uses_graphs = true;
  std::string gemm_choices;          // directory that keeps how products are computed; empty: not measured
  std::string shipped_gemm_choices;  // directory of those that came with the programs; empty: none
};

struct BackendPlan {
  MemoryPlan memory;
  DataType compute_type = DataType::kF32;
  std::uint32_t context_length = 0;
  std::uint32_t num_gpus = 0;       // of this machine; 0: the backend is no GPU's
  std::uint32_t max_in_flight = 2;  // batches that its devices take before one is done
  std::string
      device;  // "cuda:0, NVIDIA H200 (sm_90, 139.8 GiB, driver 13.0)" or "cpu (2 threads, avx512-bf16)"
  std::string computation;  // all that decides a KV page's bytes but the files
  std::string summary;      // for one line of the log: "cpu, bf16, 2 threads"
};

// plan() is called by any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendPlan& plan() const = 0;
  // The first call loads the weights. host_pages may be null: no host tier; pages
  // are of plan().memory.request.page_bytes. By several threads at once where there may
  // be several devices: settings.num_devices of the CPU backend, any number of one that
  // gives each a process of its own. Throws std::runtime_error.
  // worker: whose device it is; with shared cores, it runs on that worker's.
  virtual std::unique_ptr<Device> make_device(std::shared_ptr<HostPages> host_pages,
                                              std::uint32_t worker = 0) = 0;
};

// Throw std::runtime_error: a file is missing or wrong, the model is not
// supported, it does not fit into memory, there is no such device.
// `cores`: shared with other backends, which then decide over threads and pinning, not
// the settings; null: its own.
std::unique_ptr<Backend> make_cpu_backend(const BackendSettings& settings,
                                          std::shared_ptr<CpuCores> cores = nullptr);

// Exported by the CUDA library under the name kCudaBackendSymbol.
using MakeBackend = std::unique_ptr<Backend> (*)(const BackendSettings& settings);
inline constexpr const char* kCudaBackendSymbol = "troupe_make_cuda_backend";

}  // namespace troupe
