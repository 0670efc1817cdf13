// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/short_convolution.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kernels/number_formats.hpp"

namespace troupe {
namespace {

constexpr std::size_t kTokensOfTask = 8;

std::size_t channels_a_layer(const KvLayout& layout) { return 2 * layout.num_kv_heads * layout.head_dim; }

const std::byte* block_of(const ShortConvolutionArguments& a, std::size_t layer, PageId page,
                          std::size_t head) {
  return static_cast<const std::byte*>(a.kv_pool) + kv_block_offset(a.layout, a.layer + layer, page, head);
}

float scale_at(const std::byte* block, std::size_t offset) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, block + offset, sizeof bits);
  return f32_from_bf16(bits);
}

// One head's elements of a token, keys or values; element(d) is their place in the block.
template <class Element>
void read_head(const KvLayout& layout, const std::byte* block, std::size_t scale, Element element, float* u) {
  if (layout.kv_type == KvType::kQ8) {
    const auto* numbers = reinterpret_cast<const std::int8_t*>(block);
    const float factor = scale_at(block, scale);
    for (std::size_t d = 0; d < layout.head_dim; ++d) u[d] = factor * static_cast<float>(numbers[element(d)]);
  } else if (layout.type == DataType::kF32) {
    const auto* numbers = reinterpret_cast<const float*>(block);
    for (std::size_t d = 0; d < layout.head_dim; ++d) u[d] = numbers[element(d)];
  } else {
    const auto* numbers = reinterpret_cast<const std::uint16_t*>(block);
    for (std::size_t d = 0; d < layout.head_dim; ++d) u[d] = f32_from_bf16(numbers[element(d)]);
  }
}

// u: [num_layers * channels_a_layer].
void read_token(const ShortConvolutionArguments& a, PageId page, std::size_t slot, float* u) {
  const std::size_t keys = a.layout.num_kv_heads * a.layout.head_dim;
  for (std::size_t layer = 0; layer < a.num_layers; ++layer, u += 2 * keys) {
    for (std::size_t head = 0; head < a.layout.num_kv_heads; ++head) {
      const std::byte* block = block_of(a, layer, page, head);
      float* of_head = u + head * a.layout.head_dim;
      read_head(
          a.layout, block, kv_key_scale(a.layout, slot),
          [&](std::size_t d) { return kv_key_element(a.layout, slot, d); }, of_head);
      read_head(
          a.layout, block, kv_value_scale(a.layout, slot),
          [&](std::size_t d) { return kv_value_element(a.layout, slot, d); }, of_head + keys);
    }
  }
}

}  // namespace

std::size_t append_convolved_num_tasks(const ShortConvolutionArguments& arguments) {
  return (arguments.places.size() + kTokensOfTask - 1) / kTokensOfTask;
}

void append_convolved_run_task(const ShortConvolutionArguments& a, std::size_t task) {
  const auto& kernels = kernel_table(a.isa);
  std::vector<float> u(a.num_layers * channels_a_layer(a.layout));
  const std::size_t last = std::min(a.places.size(), (task + 1) * kTokensOfTask);
  for (std::size_t token = task * kTokensOfTask; token < last; ++token) {
    const TokenPlace& place = a.places[token];
    const float *b = a.bcx + token * a.bcx_stride, *x = b + 2 * a.width;
    for (std::size_t i = 0; i < a.width; ++i) u[i] = b[i] * x[i];
    for (std::size_t layer = 0; layer < a.num_layers; ++layer) {
      kernels.rotate_and_append({.qkv = u.data() + layer * channels_a_layer(a.layout),
                                 .page = static_cast<std::byte*>(a.kv_pool) +
                                         kv_block_offset(a.layout, a.layer + layer, place.page, 0),
                                 .slot = place.position % kKvPageTokens,
                                 .layout = a.layout});
    }
  }
}

std::size_t short_convolution_num_tasks(const ShortConvolutionArguments& arguments) {
  return arguments.blocks.size();
}

void short_convolution_run_task(const ShortConvolutionArguments& a, std::size_t task) {
  const AttentionBlock& block = a.blocks[task];
  // The tokens of the block and those in front of it that it needs, each where position % num_taps says.
  const std::size_t stored = a.num_layers * channels_a_layer(a.layout);
  std::vector<float> recent(a.num_taps * stored, 0.0F), sums(a.width);
  const auto read = [&](std::size_t position) {
    const PageId page = a.page_table[block.first_page + position / kKvPageTokens];
    read_token(a, page, position % kKvPageTokens, recent.data() + position % a.num_taps * stored);
  };
  const std::size_t begin = block.first_position, end = begin + block.num_tokens;
  for (std::size_t position = begin - std::min(begin, a.num_taps - 1); position < begin; ++position)
    read(position);
  for (std::size_t position = begin; position < end; ++position) {
    read(position);
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::size_t tap = a.num_taps - std::min(a.num_taps, position + 1); tap < a.num_taps; ++tap) {
      const float* u = recent.data() + (position + tap + 1) % a.num_taps * stored;
      for (std::size_t i = 0; i < a.width; ++i) sums[i] += a.weight[i * a.num_taps + tap] * u[i];
    }
    const std::size_t token = block.first_token + (position - begin);
    const float* c = a.bcx + token * a.bcx_stride + a.width;
    for (std::size_t i = 0; i < a.width; ++i) sums[i] *= c[i];
    std::byte* y = static_cast<std::byte*>(a.y) + token * a.y_stride * size_of(a.y_type);
    if (a.y_type == DataType::kF32) {
      std::memcpy(y, sums.data(), a.width * sizeof(float));
    } else {
      convert_to_bf16(DataType::kF32, sums.data(), reinterpret_cast<std::uint16_t*>(y), a.width, a.isa);
    }
  }
}

}  // namespace troupe
