// SPDX-License-Identifier: Apache-2.0
// The kernel of all products of few tokens (few_token_input.hpp).
//
// A block has eight warps. A warp has a strip of 32 outputs, all tokens and one
// slice of the depth; with more tokens, more strips stand side by side in a
// block, since each block reads all tokens: 2 * 32 * strips * depth bytes of
// weights and 2 * tokens * depth of tokens, a quarter (64 tokens: half) of the
// weights', from the L2 cache. Where strips are too few to fill a GPU, blocks
// share the depth: each stores its sums, and the last one adds them up, in the
// blocks' order.
//
// Weights and tokens come through a ring of stages in shared memory. In flight
// should be bandwidth * latency: 4.3 TB/s * 700 ns = 3 MB, or 23 KB for each of
// 132 multiprocessors. A stage has 16 KB of weights, all but one of four are on
// their way, and two blocks fit a multiprocessor: 48 or 96 KB.
//
// The tensor cores sum over 16 elements in an order that is ours to choose, as
// long as both sides have it: a lane gives them eight neighbours in memory, in
// two products. So a lane needs nothing but pieces of 16 bytes, a ring holds
// them lane by lane, and nothing is shuffled. Weights are read by the lane that
// copied them.
//
// A strip's results go to the Epilogue, a plain struct:
//   using Short                    __nv_bfloat16 or __half
//   using Columns, Operand         what it wants to have read
//   num_strips()
//   row(strip, lane)               of the weight, or kNoRow
//   load_columns(strip, lane)      what all tokens share
//   load(token, strip, lane)       early, for many tokens at once
//   store(token, strip, lane, columns, operand, value)   by a whole warp; lanes
//                                  without a row too
#pragma once

#include <algorithm>

#include "gpu/cuda/kernels/gemm/few_token_input.hpp"
#include "gpu/cuda/kernels/reductions.cuh"
#include "gpu/cuda/kernels/shared_memory.cuh"
#include "gpu/cuda/kernels/tensor_core.cuh"

namespace troupe::cuda {

inline constexpr unsigned kNoRow = 0xFFFFFFFF;
inline constexpr unsigned kFewTokenWarps = 8;
inline constexpr unsigned kFewTokenThreads = kFewTokenWarps * kWarpLanes;
inline constexpr unsigned kStripOutputs = 32;
inline constexpr unsigned kPieceBytes = 16;
inline constexpr unsigned kPiecesOfStrip = 4;   // of a lane and stage: rows lane / 4 + 0, 8, 16, 24
inline constexpr unsigned kSliceDepth = 32;     // elements of the depth of a stage and warp
inline constexpr unsigned kMostSplits = 8;      // blocks that share a depth
inline constexpr unsigned kEnoughBlocks = 120;  // nearly one a multiprocessor
inline constexpr unsigned kFewestStages = 4;    // of a block that shares
inline constexpr std::size_t kCounterBytes = 512;

// For up to 8 * kTiles tokens.
template <unsigned kTiles_>
struct FewTokenShape {
  static constexpr unsigned kTiles = kTiles_;
  static constexpr unsigned kTokens = 8 * kTiles;
  static constexpr unsigned kStrips = kTiles < 4 ? kTiles : 4;
  static constexpr unsigned kSlices = kFewTokenWarps / kStrips;
  static constexpr unsigned kOutputs = kStrips * kStripOutputs;
  static constexpr unsigned kStageDepth = kSlices * kSliceDepth;
  static constexpr unsigned kWeightPieces = kFewTokenThreads * kPiecesOfStrip;
  static constexpr unsigned kTokenParts = kTiles * kSlices;  // of 32 pieces
  static constexpr unsigned kStagePieces = kWeightPieces + kTokenParts * kWarpLanes;
  static constexpr unsigned kStages = 4;
  static constexpr unsigned kRingBytes = kStages * kStagePieces * kPieceBytes;
  // Sums in shared memory, where the ring was: [kSlices][kTokens][kPitch]
  static constexpr unsigned kPitch = kOutputs + 4;  // so that lanes hit different banks
  static constexpr unsigned kTileFloats = kTokens * kOutputs;
  static_assert(kSlices * kTokens * kPitch * sizeof(float) <= kRingBytes);
  static_assert(2 * (kRingBytes + 1024 + 1024) <= 228 * 1024, "two blocks a multiprocessor");
  static_assert(kRingBytes + 1024 <= 99 * 1024, "one of sm_86, sm_89 or sm_120");
};
static_assert(kCounterBytes + (2 * kEnoughBlocks - 1) * FewTokenShape<8>::kTileFloats * sizeof(float) <=
              kFewTokenWorkspaceBytes);

// A thread's place in its block.
template <typename Shape>
struct FewTokenPlace {
  unsigned lane = threadIdx.x % kWarpLanes;
  unsigned warp = threadIdx.x / kWarpLanes;
  unsigned slice = warp % Shape::kSlices;
  unsigned strip_of_block = warp / Shape::kSlices;
  unsigned strip = blockIdx.x * Shape::kStrips + strip_of_block;
};

template <typename Shape, typename Epilogue>
class StageRing {
 public:
  using Short = typename Epilogue::Short;

  __device__ __forceinline__ StageRing(const FewTokenInput& input, const Epilogue& epilogue)
      : input_(input), pieces_(dynamic_shared<uint4>()) {
#pragma unroll
    for (unsigned i = 0; i < kPiecesOfStrip; ++i) {
      const unsigned row =
          place_.strip < epilogue.num_strips() ? epilogue.row(place_.strip, place_.lane / 4 + 8 * i) : kNoRow;
      // Another row's sums are as good where none is stored.
      rows_[i] =
          (row != kNoRow ? row : 0) * static_cast<unsigned>(input.weight_stride / kEight) + place_.lane % 4;
    }
  }

  // Elements behind the depth or the tokens become 0 and are not read.
  __device__ __forceinline__ void copy_weights(unsigned slot, unsigned stage) {
    const unsigned k = stage * Shape::kStageDepth + place_.slice * kSliceDepth;
    const bool is_inside = k + place_.lane % 4 * kEight < input_.depth;
#pragma unroll
    for (unsigned i = 0; i < kPiecesOfStrip; ++i) {
      stream_16_async(weight_piece(slot, i), static_cast<const uint4*>(input_.weight) + rows_[i] + k / kEight,
                      is_inside);
    }
  }
  __device__ __forceinline__ void copy_tokens(unsigned slot, unsigned stage) {
#pragma unroll
    for (unsigned first = 0; first < Shape::kTokenParts; first += kFewTokenWarps) {
      const unsigned part = first + place_.warp;
      const unsigned token = part / Shape::kSlices * 8 + place_.lane / 4;
      const unsigned k =
          stage * Shape::kStageDepth + part % Shape::kSlices * kSliceDepth + place_.lane % 4 * kEight;
      const bool is_there = token < input_.num_tokens && k < input_.depth;
      copy_16_async(
          token_piece(slot, part),
          static_cast<const Short*>(input_.a) + (is_there ? token : 0) * input_.a_stride + (is_there ? k : 0),
          is_there);
    }
  }
  __device__ __forceinline__ void multiply(unsigned slot, FragmentC (&sums)[Shape::kTiles][2]) {
    uint4 weights[kPiecesOfStrip];
#pragma unroll
    for (unsigned i = 0; i < kPiecesOfStrip; ++i) {
      weights[i] = load_vector<uint4>(weight_piece(slot, i));
    }
#pragma unroll
    for (unsigned tile = 0; tile < Shape::kTiles; ++tile) {
      const auto tokens = load_vector<uint4>(token_piece(slot, tile * Shape::kSlices + place_.slice));
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        const uint4 &upper = weights[2 * half], &lower = weights[2 * half + 1];
        multiply_add<Short>({{upper.x, lower.x, upper.y, lower.y}}, {{tokens.x, tokens.y}}, sums[tile][half]);
        multiply_add<Short>({{upper.z, lower.z, upper.w, lower.w}}, {{tokens.z, tokens.w}}, sums[tile][half]);
      }
    }
  }

 private:
  __device__ __forceinline__ uint4* weight_piece(unsigned slot, unsigned i) {
    return pieces_ + slot * Shape::kStagePieces + (place_.warp * kPiecesOfStrip + i) * kWarpLanes +
           place_.lane;
  }
  __device__ __forceinline__ uint4* token_piece(unsigned slot, unsigned part) {
    return pieces_ + slot * Shape::kStagePieces + Shape::kWeightPieces + part * kWarpLanes + place_.lane;
  }

  const FewTokenInput& input_;
  FewTokenPlace<Shape> place_;
  uint4* pieces_;
  unsigned rows_[kPiecesOfStrip];  // pieces from the weight's start: 64 GB at most
};

// 1 / sqrt(mean of squares + epsilon) of each token, seen behind the next
// barrier.
template <typename Shape>
__device__ __forceinline__ void compute_scales(const FewTokenInput& input, float (&scales)[Shape::kTokens]) {
  constexpr int kTokensOfWarp = Shape::kTokens / kFewTokenWarps;
  const unsigned lane = threadIdx.x % kWarpLanes, warp = threadIdx.x / kWarpLanes;
  const unsigned num_parts = num_square_parts(input.depth);
  float sums[kTokensOfWarp] = {};
#pragma unroll 4
  for (unsigned part = lane; input.squares != nullptr && part < num_parts; part += kWarpLanes) {
#pragma unroll
    for (int i = 0; i < kTokensOfWarp; ++i) {
      const unsigned token = warp + i * kFewTokenWarps;
      if (token < input.num_tokens) sums[i] += input.squares[token * num_parts + part];
    }
  }
  reduce_warp(sums, Add{});
  if (lane != 0) return;
#pragma unroll
  for (int i = 0; i < kTokensOfWarp; ++i) {
    const float mean = sums[i] / static_cast<float>(input.depth);
    scales[warp + i * kFewTokenWarps] = input.squares == nullptr ? 1.0F : rsqrtf(mean + input.epsilon);
  }
}

// A warp finishes one strip for every kSlices-th token.
template <typename Shape, typename Epilogue>
class StripEnd {
 public:
  // With few tokens, what else they need is read before the sums are there: only
  // then are there registers for it.
  static constexpr bool kIsReadAhead = Shape::kTokens / Shape::kSlices <= 4;

  __device__ __forceinline__ StripEnd(const FewTokenInput& input, const Epilogue& epilogue)
      : input_(input), epilogue_(epilogue) {}

  __device__ __forceinline__ void read_ahead() {
    if constexpr (kIsReadAhead) {
      if (!is_strip()) return;
      read_columns();
      read_operands(place_.slice);
    }
  }
  __device__ __forceinline__ void finish(const float* tile, const float (&scales)[Shape::kTokens]) {
    if (!is_strip()) return;
    if constexpr (!kIsReadAhead) read_columns();
    const float* values = tile + place_.strip_of_block * kStripOutputs + place_.lane;
    for (unsigned first = place_.slice; first < input_.num_tokens; first += kTogether * Shape::kSlices) {
      if constexpr (!kIsReadAhead) read_operands(first);
#pragma unroll
      for (unsigned i = 0; i < kTogether; ++i) {
        const unsigned token = first + i * Shape::kSlices;
        if (token >= input_.num_tokens) break;
        epilogue_.store(token, place_.strip, place_.lane, columns_, operands_[i],
                        values[token * Shape::kPitch] * scales[token] + bias_);
      }
    }
  }

 private:
  static constexpr unsigned kOfWarp = Shape::kTokens / Shape::kSlices;
  static constexpr unsigned kTogether = kOfWarp < 16 ? kOfWarp : 16;  // their loads are
  static_assert(!kIsReadAhead || kTogether == kOfWarp);

  __device__ __forceinline__ bool is_strip() const { return place_.strip < epilogue_.num_strips(); }
  __device__ __forceinline__ void read_columns() {
    const unsigned row = epilogue_.row(place_.strip, place_.lane);
    bias_ = input_.bias == nullptr || row == kNoRow ? 0.0F : input_.bias[row];
    columns_ = epilogue_.load_columns(place_.strip, place_.lane);
  }
  __device__ __forceinline__ void read_operands(unsigned first) {
#pragma unroll
    for (unsigned i = 0; i < kTogether; ++i) {
      const unsigned token = first + i * Shape::kSlices;
      if (token < input_.num_tokens) {
        operands_[i] = epilogue_.load(token, place_.strip, place_.lane);
      }
    }
  }

  const FewTokenInput& input_;
  const Epilogue& epilogue_;
  FewTokenPlace<Shape> place_;
  float bias_ = 0.0F;
  typename Epilogue::Columns columns_ = {};
  typename Epilogue::Operand operands_[kTogether] = {};
};

// The thread's sums over its slice of the stages of this block.
template <typename Shape, typename Epilogue>
__device__ __forceinline__ void sum_slice(const FewTokenInput& input, const Epilogue& epilogue,
                                          float (&scales)[Shape::kTokens],
                                          StripEnd<Shape, Epilogue>& strip_end,
                                          FragmentC (&sums)[Shape::kTiles][2]) {
  constexpr unsigned kAhead = Shape::kStages - 1;
  const unsigned num_stages = divide_up(input.depth, Shape::kStageDepth);
  const unsigned of_block = divide_up(num_stages, gridDim.y);
  const unsigned begin = blockIdx.y * of_block;
  const unsigned end = min(begin + of_block, num_stages);
  StageRing<Shape, Epilogue> ring(input, epilogue);
  if (input.overlaps_previous) {
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      if (begin + i < end) ring.copy_weights(i, begin + i);
    }
    wait_for_previous_kernel();
  }
  let_next_kernel_start();
#pragma unroll
  for (unsigned i = 0; i < kAhead; ++i) {
    if (begin + i < end) {
      if (!input.overlaps_previous) ring.copy_weights(i, begin + i);
      ring.copy_tokens(i, begin + i);
    }
    end_copy_group();
  }
  strip_end.read_ahead();
  compute_scales<Shape>(input, scales);
  unsigned slot = 0, next_slot = kAhead;
  for (unsigned stage = begin; stage < end; ++stage) {
    wait_for_copies<kAhead - 1>();
    // Other warps' pieces have come, and the slot before is read. With one
    // strip a lane has no pieces but its own.
    if constexpr (Shape::kStrips > 1) __syncthreads();
    if (stage + kAhead < end) {
      ring.copy_weights(next_slot, stage + kAhead);
      ring.copy_tokens(next_slot, stage + kAhead);
    }
    end_copy_group();
    ring.multiply(slot, sums);
    next_slot = slot;
    slot = slot + 1 == Shape::kStages ? 0 : slot + 1;
  }
  wait_for_copies<0>();
}

// Adds the slices up: `tile` [kTokens][kPitch] is the block's. The ring's
// memory becomes the sums'.
template <typename Shape>
__device__ __forceinline__ float* sum_of_slices(const FewTokenInput& input,
                                                const FragmentC (&sums)[Shape::kTiles][2]) {
  constexpr unsigned kSliceFloats = Shape::kTokens * Shape::kPitch;
  const FewTokenPlace<Shape> place;
  auto* tile = dynamic_shared<float>();
  __syncthreads();  // the ring is read
  float* of_slice = tile + place.slice * kSliceFloats + place.strip_of_block * kStripOutputs;
#pragma unroll
  for (unsigned i = 0; i < Shape::kTiles * 8; ++i) {
    const unsigned token = i / 8 * 8 + place.lane % 4 * 2 + i % 2;
    const unsigned output = i % 8 / 2 * 8 + place.lane / 4;
    of_slice[token * Shape::kPitch + output] = sums[i / 8][i % 8 / 4].v[i % 4];
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < input.num_tokens * Shape::kOutputs; i += kFewTokenThreads) {
    float* sum = tile + i / Shape::kOutputs * Shape::kPitch + i % Shape::kOutputs;
    float total = *sum;
#pragma unroll
    for (unsigned slice = 1; slice < Shape::kSlices; ++slice) total += sum[slice * kSliceFloats];
    *sum = total;
  }
  return tile;
}

__device__ __forceinline__ void add_quad(const float4& part, float4& sum) {
  sum = {sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w};
}

// Where blocks share the depth: false, if another block has to finish; else the
// tile is the sum of all. A thread reads what it has written itself.
template <typename Shape>
__device__ __forceinline__ bool sum_blocks(const FewTokenInput& input, float* tile) {
  if (gridDim.y == 1) return true;
  constexpr unsigned kQuads = Shape::kOutputs / 4;  // of a token
  auto* counter = reinterpret_cast<unsigned*>(input.workspace) + blockIdx.x;
  float* parts =
      reinterpret_cast<float*>(input.workspace + kCounterBytes) + blockIdx.x * gridDim.y * Shape::kTileFloats;
  const unsigned num_quads = input.num_tokens * kQuads;
  const auto quad_of_tile = [&](unsigned i) { return tile + i / kQuads * Shape::kPitch + i % kQuads * 4; };
  __syncthreads();
  for (unsigned i = threadIdx.x; i < num_quads; i += kFewTokenThreads) {
    store_vector(parts + blockIdx.y * Shape::kTileFloats + i * 4, load_vector<float4>(quad_of_tile(i)));
  }
  __threadfence();
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(counter, 1U) == gridDim.y - 1;
  __syncthreads();
  if (!is_last) return false;
  if (threadIdx.x == 0) *counter = 0;
  __threadfence();
  constexpr unsigned kOfThread = divide_up(Shape::kTileFloats / 4, kFewTokenThreads);
  [[maybe_unused]] constexpr unsigned kTogether = kOfThread == 1 ? 4 : 2;  // parts being loaded
  float4 sums[kOfThread] = {};
#pragma unroll kTogether
  for (unsigned block = 0; block < gridDim.y; ++block) {
    const auto* part = reinterpret_cast<const float4*>(parts + block * Shape::kTileFloats);
#pragma unroll
    for (unsigned j = 0; j < kOfThread; ++j) {
      const unsigned i = j * kFewTokenThreads + threadIdx.x;
      if (i < num_quads) add_quad(__ldcg(part + i), sums[j]);
    }
  }
#pragma unroll
  for (unsigned j = 0; j < kOfThread; ++j) {
    const unsigned i = j * kFewTokenThreads + threadIdx.x;
    if (i < num_quads) store_vector(quad_of_tile(i), sums[j]);
  }
  return true;
}

template <typename Shape, typename Epilogue>
__global__ void __launch_bounds__(kFewTokenThreads, 2)
    few_token_kernel(const FewTokenInput input, const Epilogue epilogue) {
  __shared__ float scales[Shape::kTokens];
  FragmentC sums[Shape::kTiles][2] = {};
  StripEnd<Shape, Epilogue> strip_end(input, epilogue);
  sum_slice<Shape>(input, epilogue, scales, strip_end, sums);
  float* tile = sum_of_slices<Shape>(input, sums);
  if (!sum_blocks<Shape>(input, tile)) return;
  __syncthreads();
  strip_end.finish(tile, scales);
}

// Throws std::invalid_argument.
void check_few_token_input(const FewTokenInput& input, unsigned num_splits);

template <typename Shape, typename Epilogue>
void launch_few_token_kernel(const FewTokenInput& input, const Epilogue& epilogue, StreamHandle stream) {
  const unsigned num_blocks = divide_up(epilogue.num_strips(), Shape::kStrips);
  const unsigned num_stages = divide_up(input.depth, Shape::kStageDepth);
  const unsigned num_splits = std::clamp(divide_up(kEnoughBlocks, std::max(num_blocks, 1U)), 1U,
                                         std::clamp(num_stages / kFewestStages, 1U, kMostSplits));
  check_few_token_input(input, num_splits);
  if (num_blocks == 0) return;
  launch(few_token_kernel<Shape, Epilogue>,
         {.grid = dim3(num_blocks, num_splits),
          .block = kFewTokenThreads,
          .dynamic_shared_bytes = Shape::kRingBytes,
          .overlaps_previous = input.overlaps_previous},
         stream, input, epilogue);
}

// No tokens or no outputs, no launch.
template <typename Epilogue>
void launch_few_tokens(const FewTokenInput& input, const Epilogue& epilogue, StreamHandle stream) {
  if (input.num_tokens == 0) return;
  if (input.num_tokens <= 8) {
    launch_few_token_kernel<FewTokenShape<1>>(input, epilogue, stream);
  } else if (input.num_tokens <= 16) {
    launch_few_token_kernel<FewTokenShape<2>>(input, epilogue, stream);
  } else if (input.num_tokens <= 32) {
    launch_few_token_kernel<FewTokenShape<4>>(input, epilogue, stream);
  } else {
    launch_few_token_kernel<FewTokenShape<8>>(input, epilogue, stream);
  }
}

// Calls body(T{}) with the type of a and weight.
template <typename Body>
void with_short_type(DataType type, Body body) {
  if (type == DataType::kF16) return body(__half{});
  return body(__nv_bfloat16{});  // others are refused later
}

}  // namespace troupe::cuda
