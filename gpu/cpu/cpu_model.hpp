// SPDX-License-Identifier: Apache-2.0
// A model made ready for the CPU backend, in two steps: plan (reads headers,
// checks everything, divides the memory, allocates nothing large) and load
// (packs the weights, or maps those that an earlier process packed). The loaded model is immutable and shared
// by successive devices, so a worker that died is replaced in milliseconds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/activations.hpp"
#include "gpu/cpu/cpu_weights.hpp"
#include "gpu/cpu/kept_weights.hpp"
#include "gpu/memory_plan.hpp"
#include "gpu/model/model_shapes.hpp"
#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/operators/rotary_table.hpp"
#include "gpu/pages/kv_layout.hpp"
#include "gpu/program/program.hpp"

namespace troupe {

struct CpuModelSettings {
  // Type of matmul operands and KV pages; none: bf16 where the CPU has AVX512-BF16 and the weights are bf16
  // or in blocks, else f32; f32 where vectors come of it, or rows of state.
  std::optional<DataType> compute_type = {};
  // A sequence's tokens do not depend on what else is in its batches. false:
  // oneDNN for batches of many rows, at the price of a second copy of the weights.
  bool deterministic = true;
  // A decoder's matrices and, with kKeep, embeddings; an encoder's are opened.
  Quantization quantization = Quantization::kKeep;
  KvType kv_type = KvType::kComputed;                // of a decoder's pages
  Activations activations = Activations::kComputed;  // of products with weights in blocks
  unsigned num_threads = 0;                          // of a device; 0: one a CPU this process may use
  unsigned num_devices = 1;                          // over the same weights, at once
  std::vector<int> cpus = {};                        // pins compute thread i to cpus[i]; empty: not pinned
  std::uint64_t memory_budget_bytes = 0;             // 0: three quarters of what is available now
  std::uint32_t num_slots = 64;                      // sequences that may run at once
  std::uint32_t max_batch_tokens = 512;
  // 0: the model's; larger ones are cut to it, and without KV pages to a batch.
  std::uint32_t context_length = 0;
  std::uint32_t max_pages = 0;  // 0: twice what num_slots full sequences need
  WeightsDirectory kept_weights = {};
};

struct CpuModelPlan {
  std::shared_ptr<const Network> network;
  std::shared_ptr<const WeightStore> store;
  CpuModelSettings settings;  // num_threads and context_length filled in, an encoder not quantized,
                              // activations kComputed if no blocks take rounded rows
  DataType compute_type = DataType::kF32;
  std::string weight_formats;  // blocks of matrices: "Q4_K, Q6_K", "q8"; empty: none
  ProgramShape largest;
  MemoryPlan memory;  // of a device, the weights that it shares included
};

struct CpuModel {
  std::shared_ptr<const Network> network;
  CpuModelSettings settings;
  DataType compute_type = DataType::kF32;
  ProgramShape largest;  // for ProgramCache, too
  MemoryPlan memory;
  std::shared_ptr<const CpuWeights> weights;
  std::shared_ptr<const WeightsWriter> writer;  // keeps the weights for the next start; null: nothing to do
  RotaryTables rotary;                          // none: no KV pages

  // Its first cell; all keep the same kind of state.
  CellType cell() const { return network->cells().front(); }
};

// model_dir: or a GGUF file. Both throw std::runtime_error: a file is missing or wrong, the model is not
// supported, it does not fit into memory.
CpuModelPlan plan_cpu_model(const std::filesystem::path& model_dir, const CpuModelSettings& settings);
std::shared_ptr<const CpuModel> load_cpu_model(const CpuModelPlan& plan);

// The embeddings' type. Blocks beside embeddings in f16 decide instead: they are coarser.
DataType natural_type_of(const WeightStore& store, const Network& network);
DataType choose_compute_type(const CpuModelSettings& settings, DataType weight_type,
                             const CellType& cell = {});

// Memory that the system can give this process now: free memory and what its control groups
// leave (gpu/control_groups.hpp), whichever is less. root: of /sys and /proc.
std::uint64_t available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace troupe
