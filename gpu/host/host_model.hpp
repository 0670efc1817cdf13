// SPDX-License-Identifier: Apache-2.0
// A model made ready for the host backend, in two steps: plan (reads headers,
// checks everything, divides the memory, allocates nothing large) and load
// (packs the weights). What load returns is immutable and shared by successive
// devices, so a worker that died is replaced in milliseconds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/host/host_weights.hpp"
#include "gpu/host/kernels/kv_pages.hpp"
#include "gpu/host/kernels/rotary.hpp"
#include "gpu/memory_plan.hpp"
#include "gpu/model_shapes.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/program.hpp"
#include "gpu/weights.hpp"

namespace troupe {

struct HostModelSettings {
  // Type of matmul operands and KV pages; none: bf16 where the CPU has
  // AVX512-BF16 and the weights are 16-bit, else f32.
  std::optional<DataType> compute_type = {};
  // A sequence's tokens do not depend on what else is in its batches. false:
  // oneDNN for batches of many rows, at the price of a second copy of the weights.
  bool deterministic = true;
  unsigned num_threads = 0;               // 0: one a CPU this process may use
  std::vector<int> cpus = {};             // pins compute thread i to cpus[i]; empty: not pinned
  std::uint64_t memory_budget_bytes = 0;  // 0: three quarters of what is available now
  std::uint32_t num_slots = 64;           // sequences that may run at once
  std::uint32_t max_batch_tokens = 512;
  std::uint32_t context_length = 0;  // 0: the model's; larger ones are cut to it
  std::uint32_t max_pages = 0;       // 0: twice what num_slots full sequences need
};

struct HostModelPlan {
  std::shared_ptr<const Network> network;
  std::shared_ptr<const WeightStore> store;
  HostModelSettings settings;  // num_threads and context_length filled in
  DataType compute_type = DataType::kF32;
  ProgramShape largest;
  MemoryPlan memory;
};

struct HostModel {
  std::shared_ptr<const Network> network;
  HostModelSettings settings;
  DataType compute_type = DataType::kF32;
  ProgramShape largest;  // for ProgramCache, too
  MemoryPlan memory;
  std::shared_ptr<const HostWeights> weights;
  std::shared_ptr<const RotaryTable> rotary;
};

// Both throw std::runtime_error: a file is missing or wrong, the model is not
// supported, it does not fit into memory.
HostModelPlan plan_host_model(const std::filesystem::path& model_dir, const HostModelSettings& settings);
std::shared_ptr<const HostModel> load_host_model(const HostModelPlan& plan);

DataType choose_compute_type(const HostModelSettings& settings, DataType weight_type);

// What the system can give this process now: free memory and the control
// group's limit, whichever is less.
std::uint64_t available_memory_bytes();

}  // namespace troupe
