// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/gemm/qkv_gemm.hpp"

#include <stdexcept>
#include <string>

#include "gpu/cuda/kernels/computed_pages.cuh"
#include "gpu/cuda/kernels/gemm/few_token_gemm.cuh"

namespace troupe::cuda {
namespace {

// A strip is 16 elements of a head's first half and those half a head behind
// them, so that a warp has both of what is rotated.
constexpr unsigned kPairs = kStripOutputs / 2;

template <typename Short_>
struct QkvSums {
  using Short = Short_;
  struct Columns {};
  struct Operand {
    TokenPlace place;
    float cosine, sine;
  };
  struct Element {
    unsigned head;  // of queries, keys, then values
    unsigned pair;  // may lie behind half a head
    unsigned d;
  };
  QkvGemmArguments a;
  std::uint32_t half;  // of a head
  std::uint32_t strips_of_head;

  __host__ __device__ __forceinline__ unsigned num_strips() const {
    return (a.num_heads + 2 * static_cast<unsigned>(a.layout.num_kv_heads)) * strips_of_head;
  }
  __device__ __forceinline__ Element element_of(unsigned strip, unsigned lane) const {
    const unsigned pair = strip % strips_of_head * kPairs + lane % kPairs;
    return {strip / strips_of_head, pair, pair + lane / kPairs * half};
  }
  __device__ __forceinline__ bool is_rotated(unsigned head) const {
    return a.cosines_sines != nullptr && head < a.num_heads + a.layout.num_kv_heads;
  }
  __device__ __forceinline__ unsigned row(unsigned strip, unsigned lane) const {
    const Element e = element_of(strip, lane);
    return e.pair < half ? e.head * 2 * half + e.d : kNoRow;
  }
  __device__ __forceinline__ Columns load_columns(unsigned, unsigned) const { return {}; }
  __device__ __forceinline__ Operand load(unsigned token, unsigned strip, unsigned lane) const {
    const Element e = element_of(strip, lane);
    const TokenPlace place = a.places[token];
    if (e.pair >= half || !is_rotated(e.head)) return {place, 1.0F, 0.0F};
    const float* angles = a.cosines_sines + std::size_t{place.position} * 2 * half + e.pair;
    return {place, angles[0], angles[half]};
  }
  __device__ __forceinline__ void store(unsigned token, unsigned strip, unsigned lane, const Columns&,
                                        const Operand& operand, float value) const {
    const Element e = element_of(strip, lane);
    const float other = __shfl_xor_sync(kAllLanes, value, kPairs);
    if (e.pair >= half) return;
    const float turned = lane < kPairs ? -other : other;
    const float rotated = is_rotated(e.head) ? value * operand.cosine + turned * operand.sine : value;
    if (e.head < a.num_heads) {
      from_float(rotated, static_cast<Short*>(a.queries) + token * a.query_stride + e.head * 2 * half + e.d);
    } else {
      append(operand.place, e.head - a.num_heads, e.d, rotated);
    }
  }

 private:
  // Keys' heads come before values'.
  __device__ __forceinline__ void append(const TokenPlace& place, unsigned head, unsigned d,
                                         float value) const {
    const auto num_kv_heads = static_cast<unsigned>(a.layout.num_kv_heads);
    const bool is_key = head < num_kv_heads;
    auto* block = reinterpret_cast<Short*>(
        a.pool + computed_block_offset(a.layout, a.layer, place.page, is_key ? head : head - num_kv_heads));
    const std::size_t token = place.position % kKvPageTokens;
    from_float(value,
               block + (is_key ? kv_key_element(a.layout, token, d) : kv_value_element(a.layout, token, d)));
  }
};

void check(const QkvGemmArguments& a) {
  const std::size_t width = (a.num_heads + 2 * a.layout.num_kv_heads) * a.layout.head_dim;
  if (a.input.num_outputs != width || a.layout.head_dim % 2 != 0) {
    throw std::invalid_argument("queries, keys and values are heads of an even width, " +
                                std::to_string(width) + " outputs together, not " +
                                std::to_string(a.input.num_outputs));
  }
  if (a.layout.type != a.input.type) {
    throw std::invalid_argument("keys and values are stored in the type of what is multiplied, " +
                                std::string(name_of(a.input.type)) + ", not in " +
                                std::string(name_of(a.layout.type)));
  }
}

}  // namespace

void launch_qkv_gemm(const QkvGemmArguments& arguments, StreamHandle stream) {
  check(arguments);
  const auto half = static_cast<std::uint32_t>(arguments.layout.head_dim / 2);
  with_short_type(arguments.input.type, [&](auto element) {
    launch_few_tokens(arguments.input, QkvSums<decltype(element)>{arguments, half, divide_up(half, kPairs)},
                      stream);
  });
}

}  // namespace troupe::cuda
