// SPDX-License-Identifier: Apache-2.0
// A model made ready for a GPU, in two steps as on the host: plan (reads headers,
// divides the memory, allocates nothing) and load (copies the weights). A loaded
// model is immutable and shared by successive devices of a process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gpu/backend.hpp"
#include "gpu/cuda/attention_plan.hpp"
#include "gpu/cuda/batch_input.hpp"
#include "gpu/cuda/gemm/gemm_shape.hpp"
#include "gpu/cuda/runtime/gpu_properties.hpp"
#include "gpu/cuda/runtime/memory.hpp"
#include "gpu/cuda/weights.hpp"
#include "gpu/memory_plan.hpp"
#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"
#include "gpu/pages/kv_layout.hpp"
#include "gpu/program/program.hpp"

namespace troupe::cuda {

struct CudaModelPlan {
  BackendSettings settings;  // num_slots and max_in_flight at least 1; a slot of recurrent cells is a row
  GpuProperties gpu = {};
  std::shared_ptr<const Network> network = {};
  std::shared_ptr<const WeightStore> store = {};
  CellType cell = {};  // the first; of rows of state, others keep the same
  DataType compute_type = DataType::kBF16;
  std::uint32_t context_length = 0;
  std::uint32_t handed_width = 0;  // of a state that is handed out; 0: none is
  ProgramShape largest = {};       // for ProgramCache, too
  std::size_t arena_bytes = 0;
  AttentionLimits attention = {};
  BatchCapacity capacity = {};  // of the largest batch
  // A batch's BatchInput: the largest, on the device; in pinned memory, of which each batch in
  // flight has a part, all but those of prompts behind the longest contexts.
  std::size_t input_bytes = 0;
  std::size_t pinned_input_bytes = 0;
  MemoryPlan memory = {};

  bool has_pages() const { return cell.state == StateKind::kPages; }
  // Kernels of few tokens rotate whole heads.
  bool may_fuse() const { return rotary_dim() == network->shapes().head_dim; }
  std::uint32_t rotary_dim() const;  // elements of a head
  bool has_rows() const { return cell.state == StateKind::kRows; }
  // One page more than batches may name: rows that only fill up a captured graph
  // write there. Only decoders have pages.
  KvLayout layout() const;
  // Rows of state, one more than batches may name for the same reason; 0 without such.
  std::size_t state_bytes() const;
  std::size_t vector_bytes() const;  // of the results of the largest batch
  std::size_t handed_bytes() const;  // of its states that are handed out
};

// Throws std::runtime_error: a file is missing or wrong, the model is not
// supported, it does not fit into the GPU's memory, there is no such GPU.
CudaModelPlan plan_cuda_model(const BackendSettings& settings);

struct CudaModel {
  // Loads, and measures products where plan.settings.gemm_choices says so, or
  // takes what was measured before or is shipped. Throws std::runtime_error. `news` tells
  // of an error in the file of choices.
  CudaModel(const CudaModelPlan& plan, std::string& news);

  CudaModelPlan plan;  // without the store
  DeviceWeights weights;
  DeviceMemory cosines_sines;  // [context_length, rotary_dim]
  GemmChoices gemms;           // as measured, or none
};

}  // namespace troupe::cuda
