// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/attention/paged_attention.hpp"

#include "gpu/cuda/kernels/attention/attention_rows.cuh"
#include "gpu/cuda/kernels/attention/kv_block.cuh"
#include "gpu/cuda/kernels/attention/tiled_attention.hpp"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/launch.cuh"
#include "gpu/cuda/kernels/shared_memory.cuh"
#include "gpu/cuda/kernels/softmax_state.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kWarps = 4;  // of a block; page p of a sequence is for warp p % 4
constexpr unsigned kThreads = kWarps * kWarpLanes;
constexpr unsigned kTokens = kKvPageTokens;
constexpr unsigned kQuads = kTokens / 4;               // lanes that share the keys of an element
constexpr unsigned kPairSteps = kWarpLanes / kQuads;   // pairs of elements a warp reads at once
constexpr unsigned kSumsOfWarp = kWarpLanes * kEight;  // most sums of a row, over all lanes

// What the rows of an item know of the keys seen so far.
template <int kRows>
struct RowStates {
  float highest[kRows];
  float total[kRows];         // of weights
  float sums[kRows][kEight];  // of weighted values: the lane's share
};

// Shared memory of a block: first queries and weights, then sums in their place.
template <int kRows>
struct BlockMemory {
  float* queries;          // [kRows][head_dim], scaled
  float* weights;          // [kWarps][kRows][kTokens]
  float* sums;             // [kWarps][kRows][kSumsOfWarp]
  SoftmaxState* of_warps;  // [kWarps][kRows]

  static __host__ __device__ std::size_t size_bytes() {
    return sizeof(float) * kWarps * kRows * (kSumsOfWarp + 2);
  }
  static __device__ BlockMemory of_block() {
    auto* memory = dynamic_shared<float>();
    return {memory, memory + kRows * kMaxHeadDim, memory,
            reinterpret_cast<SoftmaxState*>(memory + kWarps * kRows * kSumsOfWarp)};
  }
};
static_assert(kMaxHeadDim + kWarps * kTokens <= kWarps * kSumsOfWarp);

// Where a lane is in the values of a page: elements 8 * chunk … of every
// num_slots-th token.
struct ValuePlace {
  unsigned num_chunks;
  unsigned num_slots;
  unsigned chunk;
  unsigned slot;  // num_slots or more: the lane has none
};
__device__ __forceinline__ ValuePlace value_place(const KvLayout& layout, unsigned lane) {
  const auto num_chunks = static_cast<unsigned>(padded_head_dim(layout.head_dim) / kEight);
  return {num_chunks, kWarpLanes / num_chunks, lane % num_chunks, lane / num_chunks};
}

template <typename T, int kRows>
__device__ __forceinline__ void load_queries(const PagedAttentionArguments& a, const AttentionItem& item,
                                             float* queries) {
  const auto head_dim = static_cast<unsigned>(a.layout.head_dim);
  for (unsigned i = threadIdx.x; i < kRows * head_dim; i += kThreads) {
    const std::uint32_t row = item.first_row + i / head_dim;
    float value = 0.0F;
    if (i / head_dim < item.num_rows) {
      value = to_float(query_of<T>(a, row)[i % head_dim]) * a.scale;
    }
    queries[i] = value;
  }
}

// scores[row][t] for tokens 4 * (lane % 8) + t, the same in the four lanes that
// have these tokens.
template <typename T, int kRows>
__device__ __forceinline__ void score_page(const PagedAttentionArguments& a, const T* block,
                                           const float* queries, unsigned lane, float (&scores)[kRows][4]) {
  const auto head_dim = static_cast<unsigned>(a.layout.head_dim);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int t = 0; t < 4; ++t) scores[r][t] = 0.0F;
  }
  constexpr unsigned kAhead = kLoadsAhead<T>;
  const unsigned num_pairs = head_dim / 2;
  for (unsigned first = lane / kQuads; first < num_pairs; first += kAhead * kPairSteps) {
    RawKeys<T> raw[kAhead] = {};
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      const unsigned pair = first + i * kPairSteps;
      if (pair < num_pairs) raw[i] = load_keys(block, pair, lane % kQuads * 4);
    }
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      const unsigned pair = first + i * kPairSteps;
      if (pair >= num_pairs) continue;
      const KeyQuad keys = unpack_keys(raw[i]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const auto query = load_vector<float2>(queries + r * head_dim + 2 * pair);
#pragma unroll
        for (int t = 0; t < 4; ++t) {
          scores[r][t] += query.x * keys.first[t];
          scores[r][t] += query.y * keys.second[t];
        }
      }
    }
  }
#pragma unroll
  for (unsigned distance = kQuads; distance < kWarpLanes; distance *= 2) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        scores[r][t] += __shfl_xor_sync(kAllLanes, scores[r][t], static_cast<int>(distance));
      }
    }
  }
}

// Scores become weights, those a row must not see 0; what the row had before is
// rescaled to its new highest score.
template <int kRows>
__device__ __forceinline__ void weigh_page(const PagedAttentionArguments& a, const AttentionItem& item,
                                           std::uint32_t first_key, unsigned lane, float (&scores)[kRows][4],
                                           RowStates<kRows>& states) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::uint32_t position = position_of(a, item, static_cast<unsigned>(r));
    float highest = kLowest;
#pragma unroll
    for (unsigned t = 0; t < 4; ++t) {
      const std::uint32_t key = first_key + lane % kQuads * 4 + t;
      scores[r][t] = is_visible(a, key, position) ? scores[r][t] : kLowest;
      highest = fmaxf(highest, scores[r][t]);
    }
#pragma unroll
    for (int distance = 1; distance < static_cast<int>(kQuads); distance *= 2) {
      highest = fmaxf(highest, __shfl_xor_sync(kAllLanes, highest, distance));
    }
    highest = fmaxf(highest, states.highest[r]);
    float total = 0.0F;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      scores[r][t] = rescale(scores[r][t], highest);
      total += scores[r][t];
    }
#pragma unroll
    for (int distance = 1; distance < static_cast<int>(kQuads); distance *= 2) {
      total += __shfl_xor_sync(kAllLanes, total, distance);
    }
    const float correction = rescale(states.highest[r], highest);
    states.highest[r] = highest;
    states.total[r] = states.total[r] * correction + total;
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) states.sums[r][i] *= correction;
  }
}

// Adds weight * value for the page's first `num_tokens` tokens; what lies behind
// them was never written.
template <typename T, int kRows>
__device__ __forceinline__ void add_values(const KvLayout& layout, const T* block, const float* weights,
                                           unsigned num_tokens, const ValuePlace& place,
                                           RowStates<kRows>& states) {
  if (place.slot >= place.num_slots) return;
  constexpr unsigned kAhead = kLoadsAhead<T>;
  for (unsigned first = place.slot; first < num_tokens; first += kAhead * place.num_slots) {
    RawEight<T> raw[kAhead] = {};
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      const unsigned t = first + i * place.num_slots;
      if (t < num_tokens) raw[i] = load_raw(block + kv_value_element(layout, t, place.chunk * kEight));
    }
#pragma unroll
    for (unsigned i = 0; i < kAhead; ++i) {
      const unsigned t = first + i * place.num_slots;
      if (t >= num_tokens) continue;
      const Eight value = unpack_eight(raw[i]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float weight = weights[r * kTokens + t];
#pragma unroll
        for (unsigned j = 0; j < kEight; ++j) states.sums[r][j] += weight * value.v[j];
      }
    }
  }
}

// The item's pages that are the warp's.
template <typename T, int kRows>
__device__ __forceinline__ void attend_pages(const PagedAttentionArguments& a, const AttentionItem& item,
                                             const BlockMemory<kRows>& memory, unsigned warp, unsigned lane,
                                             RowStates<kRows>& states) {
  float* weights = memory.weights + warp * kRows * kTokens;
  const ValuePlace place = value_place(a.layout, lane);
  const std::uint32_t first = item.first_key / kTokens;
  const std::uint32_t end = divide_up(item.end_key, kTokens);
  for (std::uint32_t page = first + (warp + kWarps - first % kWarps) % kWarps; page < end; page += kWarps) {
    const T* block = kv_block_of<T>(a, item, page);
    float scores[kRows][4];
    score_page<T, kRows>(a, block, memory.queries, lane, scores);
    weigh_page<kRows>(a, item, page * kTokens, lane, scores, states);
    __syncwarp();  // everybody is done with the weights of the page before
    if (lane < kQuads) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        store_vector(weights + r * kTokens + lane * 4,
                     make_float4(scores[r][0], scores[r][1], scores[r][2], scores[r][3]));
      }
    }
    __syncwarp();
    add_values<T, kRows>(a.layout, block, weights, min(kTokens, item.end_key - page * kTokens), place,
                         states);
  }
}

template <int kRows>
__device__ __forceinline__ void share_states(const BlockMemory<kRows>& memory, const RowStates<kRows>& states,
                                             unsigned warp, unsigned lane) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float* sums = memory.sums + (warp * kRows + r) * kSumsOfWarp + lane * kEight;
#pragma unroll
    for (unsigned i = 0; i < kEight; ++i) sums[i] = states.sums[r][i];
    if (lane == 0) memory.of_warps[warp * kRows + r] = {states.highest[r], states.total[r]};
  }
}

// Element d of a row over all warps and slots, with the state it belongs to.
template <int kRows>
__device__ __forceinline__ float merged_sum(const BlockMemory<kRows>& memory, const ValuePlace& place,
                                            unsigned row, unsigned d, SoftmaxState& state) {
  state = {kLowest, 0.0F};
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    state.highest = fmaxf(state.highest, memory.of_warps[warp * kRows + row].highest);
  }
  float result = 0.0F;
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    const SoftmaxState of_warp = memory.of_warps[warp * kRows + row];
    const float* sums = memory.sums + (warp * kRows + row) * kSumsOfWarp;
    float sum = 0.0F;
    for (unsigned slot = 0; slot < place.num_slots; ++slot) {
      sum += sums[(slot * place.num_chunks + d / kEight) * kEight + d % kEight];
    }
    const float correction = rescale(of_warp.highest, state.highest);
    state.sum += of_warp.sum * correction;
    result += sum * correction;
  }
  return result;
}

// A block has an item (x) and a KV head (y).
template <typename T, int kRows>
__global__ void __launch_bounds__(kThreads)
    paged_attention_kernel(const PagedAttentionArguments a, const AttentionItem* items,
                           const std::uint32_t* num_items) {
  AttentionItem item;
  if (!begin_block(items, num_items, item)) return;
  const unsigned warp = threadIdx.x / kWarpLanes;
  const unsigned lane = threadIdx.x % kWarpLanes;
  const auto memory = BlockMemory<kRows>::of_block();
  load_queries<T, kRows>(a, item, memory.queries);
  __syncthreads();
  RowStates<kRows> states{};
#pragma unroll
  for (int r = 0; r < kRows; ++r) states.highest[r] = kLowest;
  attend_pages<T, kRows>(a, item, memory, warp, lane, states);
  __syncthreads();  // sums take the place of queries and weights
  share_states(memory, states, warp, lane);
  __syncthreads();
  const auto head_dim = static_cast<unsigned>(a.layout.head_dim);
  const ValuePlace place = value_place(a.layout, lane);
  for (unsigned i = threadIdx.x; i < item.num_rows * head_dim; i += kThreads) {
    const unsigned row = i / head_dim;
    const unsigned d = i % head_dim;
    SoftmaxState state;
    const float sum = merged_sum(memory, place, row, d, state);
    if (item.partial == kNoPartial) {
      from_float(sum / state.sum, attended_of<T>(a, item.first_row + row) + d);
      continue;
    }
    float* partial = partial_of(a, item.partial + row);
    partial[d] = sum;
    if (d == 0) {
      partial[head_dim] = state.highest;
      partial[head_dim + 1] = state.sum;
    }
  }
}

// A block has the rows of a merge (x) and a KV head (y).
template <typename T>
__global__ void __launch_bounds__(kThreads)
    merge_attention_kernel(const PagedAttentionArguments a, const AttentionMerge* merges,
                           const std::uint32_t* num_merges) {
  AttentionMerge merge;
  if (!begin_block(merges, num_merges, merge)) return;
  const auto head_dim = static_cast<unsigned>(a.layout.head_dim);
  for (unsigned i = threadIdx.x; i < merge.num_rows * head_dim; i += kThreads) {
    const unsigned row = i / head_dim;
    const auto partial_of_split = [&](unsigned split) {
      return partial_of(a, merge.first_partial + split * merge.num_rows + row);
    };
    float highest = kLowest;
    for (unsigned split = 0; split < merge.num_splits; ++split) {
      highest = fmaxf(highest, partial_of_split(split)[head_dim]);
    }
    float sum = 0.0F, total = 0.0F;
    for (unsigned split = 0; split < merge.num_splits; ++split) {
      const float* partial = partial_of_split(split);
      const float correction = rescale(partial[head_dim], highest);
      sum += partial[i % head_dim] * correction;
      total += partial[head_dim + 1] * correction;
    }
    from_float(sum / total, attended_of<T>(a, merge.first_row + row) + i % head_dim);
  }
}

template <typename T, std::size_t kClass = 0>
void launch_few_rows(const PagedAttentionArguments& arguments, const DeviceAttentionPlan& plan,
                     StreamHandle stream) {
  constexpr int kRows = kAttentionClasses[kClass];
  if (plan.num_items[kClass] > 0) {
    launch(paged_attention_kernel<T, kRows>,
           {.grid = dim3(plan.num_items[kClass], static_cast<unsigned>(arguments.layout.num_kv_heads)),
            .block = kThreads,
            .dynamic_shared_bytes = BlockMemory<kRows>::size_bytes(),
            .overlaps_previous = arguments.overlaps_previous},
           stream, arguments, plan.items[kClass], count_of_class(plan, kClass));
  }
  if constexpr (kClass + 1 < kTileClass) {
    launch_few_rows<T, kClass + 1>(arguments, plan, stream);
  }
}

}  // namespace

std::size_t attention_partial_floats(const KvLayout& layout, std::uint32_t num_partials) {
  return std::size_t{num_partials} * layout.num_kv_heads * (layout.head_dim + 2);
}

void launch_paged_attention(const PagedAttentionArguments& arguments, const DeviceAttentionPlan& plan,
                            StreamHandle stream) {
  if (plan.num_items[kTileClass] > 0) {
    launch_tiled_attention(arguments, plan, stream);
  }
  with_element_type(arguments.layout.type, [&](auto element) {
    using T = decltype(element);
    launch_few_rows<T>(arguments, plan, stream);
    if (plan.num_merges == 0) return;
    launch(merge_attention_kernel<T>,
           {.grid = dim3(plan.num_merges, static_cast<unsigned>(arguments.layout.num_kv_heads)),
            .block = kThreads,
            .overlaps_previous = arguments.overlaps_previous},
           stream, arguments, plan.merges, plan.counts == nullptr ? nullptr : &plan.counts->merges);
  });
}

}  // namespace troupe::cuda
