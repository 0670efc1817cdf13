// SPDX-License-Identifier: Apache-2.0
// Where a query row comes from, what it may see and where its result goes: what
// the kernels of attention share. blockIdx.y is the KV head.
#pragma once

#include "gpu/cuda/kernels/attention/paged_attention.hpp"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/launch.cuh"

namespace troupe::cuda {

__device__ __forceinline__ std::uint32_t position_of(const PagedAttentionArguments& a,
                                                     const AttentionItem& item, unsigned row) {
  return static_cast<std::uint32_t>(static_cast<int>((item.first_row + row) / a.group_size) +
                                    item.position_offset);
}

__device__ __forceinline__ bool is_visible(const PagedAttentionArguments& a, std::uint32_t key,
                                           std::uint32_t position) {
  return key <= position && (a.window == 0 || key + a.window > position);
}

// The block's part of the plan, and then the kernel before is over. False if the block has
// nothing to do; `count` may be null.
template <typename Part>
__device__ __forceinline__ bool begin_block(const Part* parts, const std::uint32_t* count, Part& part) {
  const bool is_idle = count != nullptr && blockIdx.x >= *count;
  if (!is_idle) part = parts[blockIdx.x];
  wait_for_previous_kernel();
  let_next_kernel_start();
  return !is_idle;
}

// From the first element of the row's token to the row's.
__device__ __forceinline__ std::size_t column_of(const PagedAttentionArguments& a, std::uint32_t row) {
  return (std::size_t{blockIdx.y} * a.group_size + row % a.group_size) * a.layout.head_dim;
}
template <typename T>
__device__ __forceinline__ const T* query_of(const PagedAttentionArguments& a, std::uint32_t row) {
  return static_cast<const T*>(a.queries) + std::size_t{row / a.group_size} * a.query_stride +
         column_of(a, row);
}
template <typename T>
__device__ __forceinline__ T* attended_of(const PagedAttentionArguments& a, std::uint32_t row) {
  return static_cast<T*>(a.attended) + std::size_t{row / a.group_size} * a.attended_stride +
         column_of(a, row);
}

// A partial result: [head_dim] sums of weighted values, the highest score, the
// sum of weights.
__device__ __forceinline__ float* partial_of(const PagedAttentionArguments& a, std::uint32_t number) {
  return a.partials + (std::size_t{number} * a.layout.num_kv_heads + blockIdx.y) * (a.layout.head_dim + 2);
}

template <typename T>
__device__ __forceinline__ const T* kv_block_of(const PagedAttentionArguments& a, const AttentionItem& item,
                                                std::uint32_t page) {
  return reinterpret_cast<const T*>(
      a.pool + kv_block_offset(a.layout, a.layer, a.page_table[item.first_page + page], blockIdx.y));
}

}  // namespace troupe::cuda
