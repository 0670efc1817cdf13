// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/attention/rotary_append_kv.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/cpu/kernels/attention/rotary_append_kv.hpp"
#include "gpu/program/batch.hpp"
#include "tests/gpu/cuda/kernels/typed_buffer.hpp"

using namespace troupe;

namespace {

struct Outcome {
  std::vector<float> queries;  // [tokens, heads * head_dim]
  std::vector<float> pool;
};

std::vector<float> floats_of(DataType type, const std::vector<std::byte>& bytes) {
  if (type == DataType::kF32) {
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<std::uint16_t> values(bytes.size() / 2);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return widened(type, values);
}

// All keys and values of a pool, token by token, however the layout orders them.
std::vector<float> in_one_order(const KvLayout& layout, const std::vector<std::byte>& pool) {
  const auto numbers = floats_of(layout.type, pool);
  std::vector<float> ordered;
  for (std::size_t at = 0; at < pool.size(); at += kv_block_bytes(layout)) {
    const float* block = numbers.data() + at / size_of(layout.type);
    for (std::size_t i = 0; i < kKvPageTokens * layout.head_dim; ++i) {
      const std::size_t token = i / layout.head_dim, d = i % layout.head_dim;
      ordered.push_back(block[kv_key_element(layout, token, d)]);
      ordered.push_back(block[kv_value_element(layout, token, d)]);
    }
  }
  return ordered;
}

// Equal, NaN (never written) to NaN.
double worst_difference(const std::vector<float>& left, const std::vector<float>& right) {
  REQUIRE(left.size() == right.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::isnan(left[i]) && std::isnan(right[i])) continue;
    const double difference = std::abs(double{left[i]} - right[i]);
    worst = std::max(worst, std::isnan(difference) ? 1e9 : difference);
  }
  return worst;
}

}  // namespace

TEST_CASE("cuda rotary: queries, keys and values are the host's, in the same places") {
  for (const DataType type : kElementTypes) {
    for (const std::size_t head_dim : {8, 24, 64, 128}) {
      CAPTURE(head_dim);
      const std::uint32_t heads = 4, kv_heads = 2;
      const std::size_t width = (heads + 2 * kv_heads) * head_dim, stride = width + 8;
      const KvLayout layout{
          .num_layers = 2, .num_pages = 5, .num_kv_heads = kv_heads, .head_dim = head_dim, .type = type};
      const RotaryTable table({.rotary_dim = head_dim, .max_positions = 100});
      std::vector<SequenceSlice> slices(2);
      slices[0].num_tokens = 20;
      slices[0].context_length = 20;  // across a page's end
      slices[1].num_tokens = 1;
      slices[1].context_length = 95;
      slices[1].first_page = 2;
      const std::vector<PageId> page_table{4, 1, 0, 0, 3};
      std::vector<TokenPlace> places;
      place_tokens(slices, page_table, places);
      const auto inputs = as_stored(type, random_values(places.size() * stride, 7));

      auto expected = inputs;
      KvLayout host_layout = layout;
      if (type == DataType::kF16) host_layout.type = DataType::kF32;  // the host has no f16 pages
      std::vector<std::byte> expected_pool(kv_pool_bytes(host_layout), std::byte{0xFF});
      const troupe::RotaryAppendKvArguments host{.qkv = expected.data(),
                                                 .qkv_stride = stride,
                                                 .places = places,
                                                 .num_heads = heads,
                                                 .table = &table,
                                                 .kv_pool = expected_pool.data(),
                                                 .layout = host_layout,
                                                 .layer = 1};
      for (std::size_t task = 0; task < rotary_append_kv_num_tasks(host); ++task) {
        rotary_append_kv_run_task(host, task);
      }

      TypedBuffer qkv(type, inputs);
      DeviceArray<TokenPlace> device_places(places);
      DeviceArray<float> angles(std::vector<float>(table.row(0), table.row(0) + 100 * head_dim));
      DeviceArray<std::byte> pool(std::vector<std::byte>(kv_pool_bytes(layout), std::byte{0xFF}));
      cuda::launch_rotary_append_kv({.qkv = qkv.data(),
                                     .qkv_stride = stride,
                                     .places = device_places.data(),
                                     .num_tokens = static_cast<std::uint32_t>(places.size()),
                                     .num_heads = heads,
                                     .cosines_sines = angles.data(),
                                     .pool = pool.data(),
                                     .layout = layout,
                                     .layer = 1},
                                    nullptr);
      const double allowed = 4 * rounding_of(type) + 1e-6;
      CHECK(worst_difference(qkv.values(), expected) < allowed);
      CHECK(worst_difference(in_one_order(layout, pool.values()), in_one_order(host_layout, expected_pool)) <
            allowed);
    }
  }
}

TEST_CASE("cuda rotary: no tokens, no launch") {
  cuda::launch_rotary_append_kv(
      {.num_heads = 2, .layout = {.num_kv_heads = 1, .head_dim = 8, .type = DataType::kF32}}, nullptr);
}
