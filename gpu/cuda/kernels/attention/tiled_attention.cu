// SPDX-License-Identifier: Apache-2.0
// After FlashAttention-2 (Dao, 2023): a warp keeps 16 query rows and their sums
// in registers and walks the keys; scores never leave registers. Keys and values
// come page by page through two buffers in shared memory, the next page on its
// way while this one is computed.
#include "gpu/cuda/kernels/attention/tiled_attention.hpp"

#include <stdexcept>
#include <string>

#include "gpu/cuda/kernels/attention/attention_rows.cuh"
#include "gpu/cuda/kernels/softmax_state.cuh"
#include "gpu/cuda/kernels/tensor_core.cuh"

namespace troupe::cuda {
namespace {

constexpr unsigned kRowsOfWarp = 16;
constexpr unsigned kWarps = kAttentionClasses[kTileClass] / kRowsOfWarp;
constexpr unsigned kThreads = kWarps * kWarpLanes;
constexpr unsigned kTokens = kKvPageTokens;
constexpr unsigned kScoreTiles = kTokens / 8;  // of 8 keys
constexpr unsigned kElementsOfCopy = 8;        // 16 bytes

// A page in shared memory. Rows are padded so that the 32 lanes of an access
// fall into different banks.
template <unsigned kHeadDim>
struct PageBuffer {
  static constexpr unsigned kKeyStride = kTokens + 8;     // words: pairs of elements
  static constexpr unsigned kValueStride = kHeadDim + 8;  // elements
  uint4 keys[kHeadDim / 2 * kKeyStride / 4];              // [pair][token]
  uint4 values[kTokens * kValueStride / 8];               // [token][element]
};

// Two rows of a lane: lane / 4 and 8 below it.
template <unsigned kHeadDim>
struct RowPair {
  FragmentA queries[kHeadDim / 16];
  FragmentC sums[kHeadDim / 8];
  float highest[2];
  float total[2];  // of the weights this lane has seen
  std::uint32_t positions[2];
};

template <typename Short, unsigned kHeadDim>
__device__ __forceinline__ void load_rows(const PagedAttentionArguments& a, const AttentionItem& item,
                                          unsigned first_row, unsigned lane, RowPair<kHeadDim>& rows) {
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned row = first_row + lane / 4 + half * 8;
    const bool is_row = row < item.num_rows;
    const auto* query = query_of<Short>(a, item.first_row + (is_row ? row : 0));
#pragma unroll
    for (unsigned k = 0; k < kHeadDim; k += 8) {
      rows.queries[k / 16].words[half + k % 16 / 8 * 2] =
          is_row ? load_vector<unsigned>(query + k + lane % 4 * 2) : 0;
    }
    rows.highest[half] = kLowest;
    rows.total[half] = 0.0F;
    rows.positions[half] = position_of(a, item, row);
  }
#pragma unroll
  for (auto& sums : rows.sums) sums = {};
}

// The block's threads start to copy a page. Values behind the last token were
// never written: zeros, for a weight of 0 does not undo a NaN.
template <typename Short, unsigned kHeadDim>
__device__ __forceinline__ void start_page(const PagedAttentionArguments& a, const AttentionItem& item,
                                           std::uint32_t page, PageBuffer<kHeadDim>& buffer) {
  using Buffer = PageBuffer<kHeadDim>;
  const auto* block = kv_block_of<Short>(a, item, page);
  constexpr unsigned kCopiesOfPair = 2 * kTokens / kElementsOfCopy;
  auto* keys = reinterpret_cast<unsigned*>(buffer.keys);
  for (unsigned i = threadIdx.x; i < kHeadDim / 2 * kCopiesOfPair; i += kThreads) {
    copy_16_async(keys + i / kCopiesOfPair * Buffer::kKeyStride + i % kCopiesOfPair * 4,
                  block + i * kElementsOfCopy, true);
  }
  const auto* values = block + kv_value_element(a.layout, 0, 0);
  auto* to = reinterpret_cast<Short*>(buffer.values);
  constexpr unsigned kCopiesOfToken = kHeadDim / kElementsOfCopy;
  for (unsigned i = threadIdx.x; i < kTokens * kCopiesOfToken; i += kThreads) {
    const unsigned token = i / kCopiesOfToken;
    copy_16_async(to + token * Buffer::kValueStride + i % kCopiesOfToken * kElementsOfCopy,
                  values + i * kElementsOfCopy, page * kTokens + token < item.end_key);
  }
  end_copy_group();
}

template <typename Short, unsigned kHeadDim>
__device__ __forceinline__ void score_page(const PageBuffer<kHeadDim>& buffer, const RowPair<kHeadDim>& rows,
                                           float scale, unsigned lane, FragmentC (&scores)[kScoreTiles]) {
  constexpr unsigned kStride = PageBuffer<kHeadDim>::kKeyStride;
  const auto* words = reinterpret_cast<const unsigned*>(buffer.keys) + lane % 4 * kStride + lane / 4;
#pragma unroll
  for (unsigned tile = 0; tile < kScoreTiles; ++tile) {
    scores[tile] = {};
#pragma unroll
    for (unsigned k = 0; k < kHeadDim / 16; ++k) {
      const unsigned* keys = words + k * 8 * kStride + tile * 8;
      multiply_add<Short>(rows.queries[k], {{keys[0], keys[4 * kStride]}}, scores[tile]);
    }
#pragma unroll
    for (float& score : scores[tile].v) score *= scale;
  }
}

// What a row must not see of a page gets no weight.
template <unsigned kHeadDim>
__device__ __forceinline__ void mask_page(const PagedAttentionArguments& a, std::uint32_t first_key,
                                          unsigned lane, const RowPair<kHeadDim>& rows,
                                          FragmentC (&scores)[kScoreTiles]) {
#pragma unroll
  for (unsigned tile = 0; tile < kScoreTiles; ++tile) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint32_t key = first_key + tile * 8 + lane % 4 * 2 + i % 2;
      if (!is_visible(a, key, rows.positions[i / 2])) scores[tile].v[i] = kLowest;
    }
  }
}

// Scores become weights; sums and totals of before are rescaled.
template <unsigned kHeadDim>
__device__ __forceinline__ void weigh_page(RowPair<kHeadDim>& rows, FragmentC (&scores)[kScoreTiles]) {
  float highest[2] = {rows.highest[0], rows.highest[1]};
#pragma unroll
  for (const auto& tile : scores) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) highest[i / 2] = fmaxf(highest[i / 2], tile.v[i]);
  }
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    highest[half] = fmaxf(highest[half], __shfl_xor_sync(kAllLanes, highest[half], 1));
    highest[half] = fmaxf(highest[half], __shfl_xor_sync(kAllLanes, highest[half], 2));
    const float correction = rescale(rows.highest[half], highest[half]);
    rows.highest[half] = highest[half];
    rows.total[half] *= correction;
#pragma unroll
    for (auto& sums : rows.sums) {
      sums.v[2 * half] *= correction;
      sums.v[2 * half + 1] *= correction;
    }
  }
#pragma unroll
  for (auto& tile : scores) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      tile.v[i] = rescale(tile.v[i], highest[i / 2]);
      rows.total[i / 2] += tile.v[i];
    }
  }
}

// The accumulators of two neighbouring tiles of scores are one fragment of
// weights.
template <typename Short, unsigned kHeadDim>
__device__ __forceinline__ void add_values(const PageBuffer<kHeadDim>& buffer,
                                           const FragmentC (&weights)[kScoreTiles], unsigned lane,
                                           RowPair<kHeadDim>& rows) {
  constexpr unsigned kStride = PageBuffer<kHeadDim>::kValueStride;
  // This lane's row of the four matrices of 16 tokens and 16 elements.
  const auto* row = reinterpret_cast<const Short*>(buffer.values) + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (unsigned k = 0; k < kTokens / 16; ++k) {
    const FragmentC &low = weights[2 * k], &high = weights[2 * k + 1];
    const FragmentA of_tokens{{pack<Short>(low.v[0], low.v[1]), pack<Short>(low.v[2], low.v[3]),
                               pack<Short>(high.v[0], high.v[1]), pack<Short>(high.v[2], high.v[3])}};
#pragma unroll
    for (unsigned d = 0; d < kHeadDim; d += 16) {
      FragmentB values[2];
      load_transposed(row + k * 16 * kStride + d, values);
      multiply_add<Short>(of_tokens, values[0], rows.sums[d / 8]);
      multiply_add<Short>(of_tokens, values[1], rows.sums[d / 8 + 1]);
    }
  }
}

template <typename Short, unsigned kHeadDim>
__device__ __forceinline__ void store_rows(const PagedAttentionArguments& a, const AttentionItem& item,
                                           unsigned first_row, unsigned lane, const RowPair<kHeadDim>& rows) {
  float totals[2] = {rows.total[0], rows.total[1]};
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {
    totals[0] += __shfl_xor_sync(kAllLanes, totals[0], distance);
    totals[1] += __shfl_xor_sync(kAllLanes, totals[1], distance);
  }
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const float inverse = 1.0F / totals[half];
    const unsigned row = first_row + lane / 4 + half * 8;
    if (row >= item.num_rows) continue;
    float* partial = item.partial == kNoPartial ? nullptr : partial_of(a, item.partial + row);
    auto* to = attended_of<Short>(a, item.first_row + row);
#pragma unroll
    for (unsigned tile = 0; tile < kHeadDim / 8; ++tile) {
      const unsigned d = tile * 8 + lane % 4 * 2;
      const float first = rows.sums[tile].v[2 * half], second = rows.sums[tile].v[2 * half + 1];
      if (partial == nullptr) {
        store_vector(to + d, pack<Short>(first * inverse, second * inverse));
      } else {
        store_vector(partial + d, float2{first, second});
      }
    }
    if (partial != nullptr && lane % 4 == 0) {
      store_vector(partial + kHeadDim, float2{rows.highest[half], totals[half]});
    }
  }
}

// A block has an item (x) and a KV head (y); a warp 16 of its rows.
template <typename Short, unsigned kHeadDim>
__global__ void __launch_bounds__(kThreads)
    tiled_attention_kernel(const PagedAttentionArguments a, const AttentionItem* items,
                           const std::uint32_t* num_items) {
  __shared__ PageBuffer<kHeadDim> buffers[2];
  AttentionItem item;
  if (!begin_block(items, num_items, item)) return;
  const unsigned lane = threadIdx.x % kWarpLanes;
  const unsigned first_row = threadIdx.x / kWarpLanes * kRowsOfWarp;
  const bool has_rows = first_row < item.num_rows;
  RowPair<kHeadDim> rows;
  load_rows<Short>(a, item, first_row, lane, rows);
  // Pages behind the last row's position hold nothing for this warp.
  const std::uint32_t last_row = min(first_row + kRowsOfWarp, item.num_rows) - 1;
  const std::uint32_t first_position = position_of(a, item, first_row);
  const std::uint32_t last_position = has_rows ? position_of(a, item, last_row) : 0;

  const std::uint32_t first_page = item.first_key / kTokens;
  const std::uint32_t end_page = divide_up(item.end_key, kTokens);
  start_page<Short>(a, item, first_page, buffers[first_page % 2]);
  for (std::uint32_t page = first_page; page < end_page; ++page) {
    if (page + 1 < end_page) {
      start_page<Short>(a, item, page + 1, buffers[(page + 1) % 2]);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();  // everybody's copies of this page are there
    if (has_rows && page * kTokens <= last_position) {
      const PageBuffer<kHeadDim>& buffer = buffers[page % 2];
      FragmentC scores[kScoreTiles];
      score_page<Short>(buffer, rows, a.scale, lane, scores);
      // In front of the diagonal, but within the last row's window, every row sees all of the page.
      const bool is_seen = (page + 1) * kTokens <= first_position + 1 &&
                           (a.window == 0 || page * kTokens + a.window > last_position);
      if (!is_seen) mask_page(a, page * kTokens, lane, rows, scores);
      weigh_page(rows, scores);
      add_values<Short>(buffer, scores, lane, rows);
    }
    __syncthreads();  // everybody is done with the buffer
  }
  if (has_rows) store_rows<Short>(a, item, first_row, lane, rows);
}

template <typename Short>
auto kernel_of(const KvLayout& layout) {
  return layout.head_dim == 64 ? tiled_attention_kernel<Short, 64> : tiled_attention_kernel<Short, 128>;
}

}  // namespace

bool can_tile_attention(const KvLayout& layout) {
  return size_of(layout.type) == 2 && (layout.head_dim == 64 || layout.head_dim == 128);
}

void launch_tiled_attention(const PagedAttentionArguments& arguments, const DeviceAttentionPlan& plan,
                            StreamHandle stream) {
  const KvLayout& layout = arguments.layout;
  if (!can_tile_attention(layout)) {
    throw std::invalid_argument(
        "attention on tensor cores wants bf16 or f16 and heads of 64 or 128 elements, not " +
        std::string(name_of(layout.type)) + " and " + std::to_string(layout.head_dim));
  }
  const LaunchShape shape{
      .grid = dim3(plan.num_items[kTileClass], static_cast<unsigned>(layout.num_kv_heads)),
      .block = kThreads,
      .overlaps_previous = arguments.overlaps_previous};
  const auto kernel =
      layout.type == DataType::kF16 ? kernel_of<__half>(layout) : kernel_of<__nv_bfloat16>(layout);
  launch(kernel, shape, stream, arguments, plan.items[kTileClass], count_of_class(plan, kTileClass));
}

}  // namespace troupe::cuda
