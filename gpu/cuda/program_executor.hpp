// SPDX-License-Identifier: Apache-2.0
// Queues the steps of a program on a stream. Everything a step needs is bound
// before; queuing allocates nothing and waits for nothing, so it can be captured
// into a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda/batch_input.hpp"
#include "gpu/cuda/gemm/cublas_gemms.hpp"
#include "gpu/cuda/lowering.hpp"
#include "gpu/cuda/weights.hpp"
#include "gpu/program/program.hpp"

namespace troupe::cuda {

// Memory on the device, all of it the owner's.
struct ExecutorMemory {
  std::byte* arena = nullptr;
  std::size_t arena_bytes = 0;
  std::byte* pool = nullptr;  // KV pages
  KvLayout layout;
  float* partials = nullptr;             // of attention
  const float* cosines_sines = nullptr;  // [positions, rotary_dim]
  std::int32_t* tokens_of_slots = nullptr;
  std::int32_t* recent_tokens = nullptr;  // [slots, kRecentTokens]
  std::int32_t* sampled = nullptr;        // [output rows]
  RowLogprobs* logprobs = nullptr;        // [output rows], those that ask first
  std::uint64_t* began = nullptr;         // the device's time in a program's first kernel
  std::byte* few_token_workspace = nullptr;
  float* vectors = nullptr;  // results of a cell that gives vectors, [slices, vector size]
  float* state = nullptr;    // rows of recurrent cells, [slots, state_width]
  std::size_t state_width = 0;
  float* states = nullptr;  // that are handed out, [state rows, width]
};

struct ExecutorSettings {
  std::uint32_t num_heads = 0;
  DataType compute_type = DataType::kBF16;
  std::uint32_t rotary_dim = 0;  // elements of a head that are rotated, where layers rotate
  bool may_fuse = true;
  // The kernels of a decode step begin while the one before them ends, products with their
  // weights (programmatic dependent launch; compute capability 9.0 and later).
  bool overlaps_kernels = false;
};

// One batch as the kernels see it.
struct BatchOnDevice {
  std::uint32_t num_tokens = 0;
  std::uint32_t num_output_rows = 0;
  BatchInput input;  // on the device
  BatchCapacity capacity;
  std::span<const AttentionRound> attention_rounds;  // blocks to launch; outlive the call of queue()
  bool has_spare_blocks = false;                     // then input.counts says how many of them count
};

// A program with everything looked up that does not change from batch to batch.
struct BoundProgram {
  std::shared_ptr<const Program> program;
  LoweredProgram lowered;
  std::vector<std::byte*> temporaries;       // by tensor; null: a weight
  std::vector<const DeviceWeight*> weights;  // by tensor; null: a temporary
  TensorId logits = 0;
};

// Places of temporaries in one piece of memory, [tensors] offsets, and its size.
struct ArenaPlaces {
  std::vector<std::uint64_t> offsets;
  std::uint64_t size_bytes = 0;
};
ArenaPlaces place_temporaries(const LoweredProgram& program, ProgramShape shape);

// Hooks between steps, on the stream that is queued on.
struct ExecutorHooks {
  // Before the first step that touches a layer's KV.
  std::function<void(std::uint32_t layer)> before_layer = {};
  std::function<void()> before_sampling = {};
};

// One thread.
class ProgramExecutor {
 public:
  ProgramExecutor(const ExecutorMemory& memory, const DeviceWeights& weights, CublasGemms& gemms,
                  const GemmChoices& choices, const ExecutorSettings& settings);

  // Kept as long as this. Throws std::runtime_error: a weight is not there or
  // does not fit, or the temporaries need more than the arena.
  const BoundProgram& bind(const std::shared_ptr<const Program>& program);

  // Throws CudaError, CublasError.
  void queue(const BoundProgram& program, const BatchOnDevice& batch, StreamHandle stream,
             const ExecutorHooks& hooks = {});

 private:
  class Queueing;

  ExecutorMemory memory_;
  const DeviceWeights& weights_;
  CublasGemms& gemms_;
  const GemmChoices& choices_;
  ExecutorSettings settings_;
  std::map<const Program*, std::unique_ptr<BoundProgram>> bound_;
};

}  // namespace troupe::cuda
