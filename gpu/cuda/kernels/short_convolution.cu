// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/short_convolution.hpp"

#include "gpu/cuda/kernels/computed_pages.cuh"
#include "gpu/cuda/kernels/eight.cuh"
#include "gpu/cuda/kernels/element_type.hpp"
#include "gpu/cuda/kernels/rows/element_grid.cuh"

namespace troupe::cuda {
namespace {

// Taps whose loads are under way before the first is used.
constexpr unsigned kTapsAhead = 4;

// As launch_elements() wants its arguments.
struct ConvolvedRows {
  ShortConvolutionArguments a;
  std::uint32_t num_rows;
  std::uint32_t width;  // of what a thread has eight columns of
};

__host__ __device__ __forceinline__ std::uint32_t channels_a_layer(const KvLayout& layout) {
  return static_cast<std::uint32_t>(2 * layout.num_kv_heads * layout.head_dim);
}

// Eight neighbouring channels of a token in a page: words of 32 bits at equal distances, each a pair of bf16
// or f16, or one f32. Values lie side by side, keys are apart by a row of 32 tokens.
template <typename T>
struct StoredEight {
  static constexpr unsigned kInWord = sizeof(unsigned) / sizeof(T);
  static constexpr unsigned kWords = kEight / kInWord;
  std::size_t first;  // bytes from the start of the pool
  unsigned distance;  // in bytes
};

template <typename T>
__device__ __forceinline__ StoredEight<T> stored_eight(const ShortConvolutionArguments& a, std::uint32_t page,
                                                       std::uint32_t slot, unsigned channel) {
  const auto head_dim = static_cast<unsigned>(a.layout.head_dim);
  const unsigned keys = channels_a_layer(a.layout) / 2;
  const unsigned half = channel / keys, head = channel % keys / head_dim, d = channel % head_dim;
  const bool is_value = half % 2 != 0;
  const std::size_t element =
      is_value ? kv_value_element(a.layout, slot, d) : kv_key_element(a.layout, slot, d);
  const auto word = static_cast<unsigned>(sizeof(unsigned));
  return {computed_block_offset(a.layout, a.layer + half / 2, page, head) + element * sizeof(T),
          is_value ? word : static_cast<unsigned>(kKvPageTokens) * word};
}

// The words as they lie in memory.
template <typename T>
struct RawWords {
  unsigned words[StoredEight<T>::kWords];
};

template <typename T>
__device__ __forceinline__ RawWords<T> load_words(const std::byte* pool, const StoredEight<T>& stored) {
  RawWords<T> raw;
#pragma unroll
  for (unsigned i = 0; i < StoredEight<T>::kWords; ++i)
    raw.words[i] = load_vector<unsigned>(pool + stored.first + i * stored.distance);
  return raw;
}

template <typename T>
__device__ __forceinline__ Eight unpack_words(const RawWords<T>& raw) {
  Eight e;
#pragma unroll
  for (unsigned i = 0; i < StoredEight<T>::kWords; ++i) {
    if constexpr (sizeof(T) == 2) {
      const float2 pair = unpack<T>(raw.words[i]);
      e.v[2 * i] = pair.x;
      e.v[2 * i + 1] = pair.y;
    } else {
      e.v[i] = __uint_as_float(raw.words[i]);
    }
  }
  return e;
}

template <typename T>
__device__ __forceinline__ void store_words(std::byte* pool, const StoredEight<T>& stored, const Eight& e) {
#pragma unroll
  for (unsigned i = 0; i < StoredEight<T>::kWords; ++i) {
    std::byte* to = pool + stored.first + i * stored.distance;
    if constexpr (sizeof(T) == 2) {
      store_vector(to, pack<T>(e.v[2 * i], e.v[2 * i + 1]));
    } else {
      store_vector(to, e.v[i]);
    }
  }
}

// u = b * x of eight channels of a token; behind the last channel zeros.
template <typename T>
__global__ void __launch_bounds__(kElementThreads) append_convolved_kernel(const ConvolvedRows rows) {
  const ShortConvolutionArguments& a = rows.a;
  const Place thread = place_of_thread(rows.width);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (thread.row >= rows.num_rows) return;
  const T *b = static_cast<const T*>(a.bcx) + thread.row * a.bcx_stride, *x = b + 2 * std::size_t{a.width};
  const bool are_aligned = are_rows_aligned(static_cast<const T*>(a.bcx), a.bcx_stride);
  const Eight factors = load_eight(x, thread.column, a.width, are_aligned && a.width % kEight == 0);
  Eight u = load_eight(b, thread.column, a.width, are_aligned);
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) u.v[i] *= factors.v[i];
  const TokenPlace place = a.places[thread.row];
  store_words(a.pool, stored_eight<T>(a, place.page, place.position % kKvPageTokens, thread.column), u);
}

// The part of eight sums that taps [first, first + kTapsAhead) have.
template <typename T>
__device__ __forceinline__ void add_taps(const ShortConvolutionArguments& a, const TokenPlace& place,
                                         std::uint32_t previous_page, unsigned first, unsigned channel,
                                         Eight& sums) {
  RawWords<T> u[kTapsAhead];
  float weights[kTapsAhead][kEight];
#pragma unroll
  for (unsigned i = 0; i < kTapsAhead; ++i) {
    const unsigned tap = first + i, back = a.num_taps - 1 - tap;
    if (tap >= a.num_taps || back > place.position) continue;
    const bool is_before = back > place.position % kKvPageTokens;
    u[i] = load_words(a.pool, stored_eight<T>(a, is_before ? previous_page : place.page,
                                              (place.position - back) % kKvPageTokens, channel));
#pragma unroll
    for (unsigned j = 0; j < kEight; ++j)
      weights[i][j] = channel + j < a.width ? a.weight[(channel + j) * a.num_taps + tap] : 0.0F;
  }
#pragma unroll
  for (unsigned i = 0; i < kTapsAhead; ++i) {
    const unsigned tap = first + i;
    if (tap >= a.num_taps || a.num_taps - 1 - tap > place.position) continue;
    const Eight values = unpack_words(u[i]);
#pragma unroll
    for (unsigned j = 0; j < kEight; ++j) sums.v[j] += weights[i][j] * values.v[j];
  }
}

template <typename T>
__global__ void __launch_bounds__(kElementThreads) short_convolution_kernel(const ConvolvedRows rows) {
  const ShortConvolutionArguments& a = rows.a;
  const Place thread = place_of_thread(rows.width);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (thread.row >= rows.num_rows) return;
  const T* c = static_cast<const T*>(a.bcx) + thread.row * a.bcx_stride + a.width;
  const bool are_aligned =
      are_rows_aligned(static_cast<const T*>(a.bcx), a.bcx_stride) && a.width % kEight == 0;
  const Eight gates = load_eight(c, thread.column, a.width, are_aligned);
  const TokenPlace place = a.places[thread.row];
  const std::uint32_t previous_page = a.previous_pages[thread.row];
  Eight sums = {};
  for (unsigned tap = 0; tap < a.num_taps; tap += kTapsAhead)
    add_taps<T>(a, place, previous_page, tap, thread.column, sums);
#pragma unroll
  for (unsigned i = 0; i < kEight; ++i) sums.v[i] *= gates.v[i];
  T* y = static_cast<T*>(a.y);
  store_eight(y + thread.row * a.y_stride, thread.column, a.width, are_rows_aligned(y, a.y_stride), sums);
}

}  // namespace

void launch_short_convolution(const ShortConvolutionArguments& arguments, StreamHandle stream) {
  const std::uint32_t stored = arguments.num_layers * channels_a_layer(arguments.layout);
  with_element_type(arguments.layout.type, [&](auto element) {
    using T = decltype(element);
    launch_elements(append_convolved_kernel<T>, ConvolvedRows{arguments, arguments.num_tokens, stored},
                    stream, arguments.overlaps_previous);
    launch_elements(short_convolution_kernel<T>,
                    ConvolvedRows{arguments, arguments.num_tokens, arguments.width}, stream,
                    arguments.overlaps_previous);
  });
}

}  // namespace troupe::cuda
