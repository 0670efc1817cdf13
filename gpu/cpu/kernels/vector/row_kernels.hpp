// SPDX-License-Identifier: Apache-2.0
// Most of what works on one row at a time: conversions, norm, rotary, sums, and the
// vector part of sampling.
#pragma once

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/vector/simd.hpp"

namespace troupe {
namespace {

// Calls body(VecF value, std::size_t first, std::size_t count) for a row in any format.
template <typename Body>
inline void for_each_vector(DataType type, const void* source, std::size_t count, Body body) {
  const std::size_t element = type == DataType::kF32 ? 4 : 2;
  for (std::size_t i = 0; i < count; i += kLanes) {
    const std::size_t lanes = count - i < kLanes ? count - i : kLanes;
    const auto* from = static_cast<const std::byte*>(source) + i * element;
    alignas(64) std::byte tail[kLanes * 4] = {};
    if (lanes < kLanes) {
      __builtin_memcpy(tail, from, lanes * element);
      from = tail;
    }
    const auto* half = reinterpret_cast<const std::uint16_t*>(from);
    body(type == DataType::kF32    ? load(from)
         : type == DataType::kBF16 ? load_bf16(half)
                                   : load_f16(half),
         i, lanes);
  }
}

inline void store_row(DataType type, void* row, std::size_t first, VecF value, std::size_t lanes) {
  if (type == DataType::kF32) {
    float* to = static_cast<float*>(row) + first;
    lanes == kLanes ? store(to, value) : store_first(to, value, lanes);
    return;
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(row) + first;
  if (lanes == kLanes) return store_bf16(to, value);
  std::uint16_t tail[kLanes];
  store_bf16(tail, value);
  __builtin_memcpy(to, tail, lanes * 2);
}

inline void to_f32(DataType type, const void* source, float* target, std::size_t count) {
  if (type == DataType::kF32) {
    __builtin_memcpy(target, source, count * 4);
    return;
  }
  for_each_vector(type, source, count, [&](VecF value, std::size_t first, std::size_t lanes) {
    store_row(DataType::kF32, target, first, value, lanes);
  });
}

inline void to_bf16(DataType type, const void* source, std::uint16_t* target, std::size_t count) {
  if (type == DataType::kBF16) {
    __builtin_memcpy(target, source, count * 2);
    return;
  }
  for_each_vector(type, source, count, [&](VecF value, std::size_t first, std::size_t lanes) {
    store_row(DataType::kBF16, target, first, value, lanes);
  });
}

inline VecF load_lanes(const float* from, std::size_t lanes) {
  return lanes == kLanes ? load(from) : load_first(from, lanes);
}

// Adds the residual and returns the sum of squares: four vectors of sums, taken
// in turn, added in one order.
inline float sum_of_squares(const RmsNormRow& row) {
  VecF sums[4] = {};
  for (std::size_t i = 0, turn = 0; i < row.width; i += kLanes, turn = (turn + 1) % 4) {
    const std::size_t lanes = row.width - i < kLanes ? row.width - i : kLanes;
    VecF x = load_lanes(row.x + i, lanes);
    if (row.residual != nullptr) {
      x += load_lanes(row.residual + i, lanes);
      store_row(DataType::kF32, row.x, i, x, lanes);
    }
    sums[turn] = fma(x, x, sums[turn]);
  }
  return sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

inline void normalize(const RmsNormRow& row) {
  const float mean = sum_of_squares(row) / static_cast<float>(row.width);
  const float scale = 1.0F / __builtin_sqrtf(mean + row.epsilon);
  for (std::size_t i = 0; i < row.width; i += kLanes) {
    const std::size_t lanes = row.width - i < kLanes ? row.width - i : kLanes;
    const VecF value = load_lanes(row.x + i, lanes) * scale * load_lanes(row.weight + i, lanes);
    store_row(row.normed_type, row.normed, i, value, lanes);
  }
}

inline void add(const float* x, const float* y, float* sum, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) sum[i] = x[i] + y[i];
}

// ---- rotary ----

// Rotates the first elements of one head; `in` and `out` may be the same.
inline void rotate(const float* in, const float* cosines_sines, std::size_t rotary_dim, float* out) {
  const std::size_t half = rotary_dim / 2;
  const float* cosines = cosines_sines;
  const float* sines = cosines_sines + half;
  for (std::size_t i = 0; i < half; i += kLanes) {
    const std::size_t lanes = half - i < kLanes ? half - i : kLanes;
    const VecF low = load_lanes(in + i, lanes);
    const VecF high = load_lanes(in + half + i, lanes);
    const VecF cosine = load_lanes(cosines + i, lanes);
    const VecF sine = load_lanes(sines + i, lanes);
    store_row(DataType::kF32, out, i, low * cosine - high * sine, lanes);
    store_row(DataType::kF32, out, half + i, high * cosine + low * sine, lanes);
  }
}

// A key or a value in 8 bits: the bf16 scale that the largest magnitude asks for, rounded up so that no
// number is cut. Numbers are put by place(d). A value that is not finite becomes a scale that is not, so that
// whatever is computed with it isn't either.
template <typename Place>
inline std::uint16_t quantize_kv(const float* row, std::size_t count, Place place) {
  constexpr float kLargest = 3.4028235e38F, kLeast = 1e-30F, kMost = 127.0F;
  constexpr std::uint16_t kNotANumber = 0x7FC0;
  float highest = 0.0F;
  bool is_finite = true;
  for (std::size_t d = 0; d < count; ++d) {
    const float magnitude = __builtin_fabsf(row[d]);
    is_finite &= magnitude <= kLargest;
    highest = magnitude > highest ? magnitude : highest;
  }
  const bool is_zero = !is_finite || highest < kLeast;
  std::uint32_t bits = 0;
  const float wanted = is_zero ? 0.0F : highest / kMost;
  __builtin_memcpy(&bits, &wanted, sizeof bits);
  const auto scale = static_cast<std::uint16_t>((bits + 0xFFFFU) >> 16);
  const float inverse = is_zero ? 0.0F : 1.0F / scalar_f32(scale);
  for (std::size_t d = 0; d < count; ++d) {
    const float number = is_finite ? __builtin_rintf(row[d] * inverse) : 0.0F;
    *place(d) = static_cast<std::int8_t>(number);
  }
  return is_finite ? scale : kNotANumber;
}

inline void append_in_8_bits(const float* key, const float* value, std::size_t slot, const KvLayout& layout,
                             std::byte* block) {
  auto* numbers = reinterpret_cast<std::int8_t*>(block);
  const std::uint16_t of_key = quantize_kv(
      key, layout.head_dim, [&](std::size_t d) { return numbers + kv_key_element(layout, slot, d); });
  const std::uint16_t of_value = quantize_kv(
      value, layout.head_dim, [&](std::size_t d) { return numbers + kv_value_element(layout, slot, d); });
  __builtin_memcpy(block + kv_key_scale(layout, slot), &of_key, sizeof of_key);
  __builtin_memcpy(block + kv_value_scale(layout, slot), &of_value, sizeof of_value);
}

inline void append_key(const float* key, std::size_t slot, const KvLayout& layout, std::byte* block) {
  if (layout.type == DataType::kF32) {
    auto* keys = reinterpret_cast<float*>(block);
    for (std::size_t d = 0; d < layout.head_dim; ++d) {
      keys[kv_key_element(layout, slot, d)] = key[d];
    }
    return;
  }
  auto* keys = reinterpret_cast<std::uint16_t*>(block);
  for (std::size_t d = 0; d < layout.head_dim; ++d) {
    keys[kv_key_element(layout, slot, d)] = scalar_bf16(key[d]);
  }
}

inline void rotate_and_append(const RotaryWork& work) {
  const std::size_t head_dim = work.layout.head_dim;
  for (std::size_t head = 0; head < work.num_heads; ++head) {
    float* query = work.qkv + head * head_dim;
    rotate(query, work.cosines_sines, work.rotary_dim, query);
  }
  const float* keys = work.qkv + work.num_heads * head_dim;
  const float* values = keys + work.layout.num_kv_heads * head_dim;
  const std::size_t element = work.layout.type == DataType::kF32 ? 4 : 2;
  for (std::size_t head = 0; head < work.layout.num_kv_heads; ++head) {
    std::byte* block = work.page + head * kv_block_bytes(work.layout);
    float key[kMaxHeadDim];
    __builtin_memcpy(key, keys + head * head_dim, head_dim * 4);
    rotate(key, work.cosines_sines, work.rotary_dim, key);
    if (work.layout.kv_type == KvType::kQ8) {
      append_in_8_bits(key, values + head * head_dim, work.slot, work.layout, block);
      continue;
    }
    append_key(key, work.slot, work.layout, block);
    std::byte* value = block + kv_value_element(work.layout, work.slot, 0) * element;
    if (work.layout.type == DataType::kF32) {
      __builtin_memcpy(value, values + head * head_dim, head_dim * 4);
    } else {
      to_bf16(DataType::kF32, values + head * head_dim, reinterpret_cast<std::uint16_t*>(value), head_dim);
    }
  }
}

// ---- sampling ----

inline LogitSummary summarize(const float* logits, std::size_t count) {
  VecF highest = VecF{} - __builtin_inff();
  VecI broken = {};
  for (std::size_t i = 0; i < count; i += kLanes) {
    const std::size_t lanes = count - i < kLanes ? count - i : kLanes;
    const VecF value = lanes == kLanes ? load(logits + i) : load_first(logits + i, lanes);
    // NaN, and with it the comparison's zero, or +Inf.
    broken |= ~(value < __builtin_inff());
    if (lanes == kLanes) highest = maximum(value, highest);
  }
  LogitSummary summary{max_in_all_lanes(highest)[0], true};
  for (std::size_t i = count / kLanes * kLanes; i < count; ++i) {
    if (logits[i] > summary.highest) summary.highest = logits[i];
  }
  for (std::size_t i = 0; i < kLanes; ++i) summary.is_valid = summary.is_valid && broken[i] == 0;
  return summary;
}

inline void exponentiate(const float* logits, float highest, float inverse_temperature, float* weights,
                         std::size_t count) {
  for (std::size_t i = 0; i < count; i += kLanes) {
    const std::size_t lanes = count - i < kLanes ? count - i : kLanes;
    const VecF value = (load_lanes(logits + i, lanes) - highest) * inverse_temperature;
    store_row(DataType::kF32, weights, i, exponential(value), lanes);
  }
}

}  // namespace
}  // namespace troupe
