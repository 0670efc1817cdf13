// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/attention/rotary_append_kv.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

double element(const KvLayout& layout, const std::byte* block, std::size_t index) {
  return layout.type == DataType::kF32 ? reinterpret_cast<const float*>(block)[index]
                                       : f32_from_bf16(reinterpret_cast<const std::uint16_t*>(block)[index]);
}

// Element d of a head rotated to `position`, in f64.
double rotated(const float* head, std::size_t head_dim, std::size_t d, std::size_t position, double theta) {
  const std::size_t half = head_dim / 2;
  const double angle = static_cast<double>(position) *
                       std::pow(theta, -2.0 * static_cast<double>(d % half) / static_cast<double>(head_dim));
  const double other = d < half ? -head[d + half] : head[d - half];
  return head[d] * std::cos(angle) + other * std::sin(angle);
}

}  // namespace

TEST_CASE("rotary: queries are rotated, keys and values land in their pages") {
  for (const Isa isa : supported_isas()) {
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      for (const std::size_t head_dim : {8, 24, 64, 128}) {
        CAPTURE(name_of(isa));
        CAPTURE(head_dim);
        const std::size_t heads = 4, kv_heads = 2, stride = (heads + 2 * kv_heads) * head_dim;
        const KvLayout layout{
            .num_layers = 2, .num_pages = 5, .num_kv_heads = kv_heads, .head_dim = head_dim, .type = type};
        std::vector<std::byte> pool(kv_pool_bytes(layout), std::byte{0xFF});
        const RotaryTable table({.rotary_dim = head_dim, .max_positions = 100});
        std::vector<SequenceSlice> slices(2);
        slices[0].num_tokens = 40;
        slices[0].context_length = 20;
        slices[1].num_tokens = 1;
        slices[1].context_length = 95;
        slices[1].first_page = 2;
        const std::vector<PageId> page_table{4, 1, 0, 0, 3};
        std::vector<TokenPlace> places;
        place_tokens(slices, page_table, places);
        REQUIRE(places.size() == 41);
        CHECK(places[12].page == 1);
        CHECK(places[40].position == 95);
        CHECK(places[40].page == 3);
        const auto before = random_values(41 * stride, 5);
        auto qkv = before;
        const RotaryAppendKvArguments arguments{.qkv = qkv.data(),
                                                .qkv_stride = stride,
                                                .places = places,
                                                .num_heads = heads,
                                                .table = &table,
                                                .kv_pool = pool.data(),
                                                .layout = layout,
                                                .layer = 1,
                                                .isa = isa};
        for (std::size_t task = 0; task < rotary_append_kv_num_tasks(arguments); ++task) {
          rotary_append_kv_run_task(arguments, task);
        }
        const double tolerance = type == DataType::kF32 ? 2e-5 : 2e-2;
        double worst_query = 0.0, worst_key = 0.0, worst_value = 0.0;
        for (std::size_t token = 0; token < 41; ++token) {
          const float* row = &before[token * stride];
          const std::size_t position = places[token].position;
          for (std::size_t i = 0; i < heads * head_dim; ++i) {
            const double expected =
                rotated(row + i / head_dim * head_dim, head_dim, i % head_dim, position, 10000.0);
            worst_query = std::max(worst_query, std::abs(qkv[token * stride + i] - expected));
          }
          for (std::size_t head = 0; head < kv_heads; ++head) {
            const std::byte* block = pool.data() + kv_block_offset(layout, 1, places[token].page, head);
            const float* key = row + (heads + head) * head_dim;
            const float* value = key + kv_heads * head_dim;
            for (std::size_t d = 0; d < head_dim; ++d) {
              worst_key = std::max(worst_key,
                                   std::abs(element(layout, block, kv_key_element(layout, position % 32, d)) -
                                            rotated(key, head_dim, d, position, 10000.0)));
              worst_value = std::max(
                  worst_value,
                  std::abs(element(layout, block, kv_value_element(layout, position % 32, d)) - value[d]));
            }
          }
        }
        CHECK(worst_query < 2e-5);
        CHECK(worst_key < tolerance);
        CHECK(worst_value < (type == DataType::kF32 ? 1e-30 : 2e-2));
      }
    }
  }
}

TEST_CASE("rotary: an append leaves the other slots and layers of a page alone") {
  const KvLayout layout{
      .num_layers = 2, .num_pages = 1, .num_kv_heads = 1, .head_dim = 8, .type = DataType::kF32};
  std::vector<std::byte> pool(kv_pool_bytes(layout), std::byte{0});
  const RotaryTable table({.rotary_dim = 8, .max_positions = 32});
  const std::vector<TokenPlace> places{{.position = 31, .page = 0}};
  std::vector<float> qkv(24, 1.0F);
  const RotaryAppendKvArguments arguments{.qkv = qkv.data(),
                                          .qkv_stride = 24,
                                          .places = places,
                                          .num_heads = 1,
                                          .table = &table,
                                          .kv_pool = pool.data(),
                                          .layout = layout,
                                          .layer = 0};
  REQUIRE(rotary_append_kv_num_tasks(arguments) == 1);
  rotary_append_kv_run_task(arguments, 0);
  const auto* values = reinterpret_cast<const float*>(pool.data());
  std::size_t num_written = 0;
  for (std::size_t i = 0; i < pool.size() / 4; ++i) num_written += values[i] != 0.0F;
  CHECK(num_written == 16);
}

TEST_CASE("rotary: linear and llama3 scaling change the frequencies as defined") {
  const auto plain = rotary_frequencies({.rotary_dim = 128, .theta = 500000.0});
  const auto linear = rotary_frequencies(
      {.rotary_dim = 128, .theta = 500000.0, .scaling = RotaryScaling::kLinear, .factor = 4.0});
  const auto llama3 = rotary_frequencies({.rotary_dim = 128,
                                          .theta = 500000.0,
                                          .scaling = RotaryScaling::kLlama3,
                                          .factor = 8.0,
                                          .low_frequency_factor = 1.0,
                                          .high_frequency_factor = 4.0,
                                          .original_max_positions = 8192});
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(linear[i] == doctest::Approx(plain[i] / 4.0).epsilon(1e-6));
    const double wavelength = 2.0 * std::numbers::pi / plain[i];
    if (wavelength < 2048) CHECK(llama3[i] == plain[i]);
    if (wavelength > 8192) CHECK(llama3[i] == doctest::Approx(plain[i] / 8.0).epsilon(1e-6));
    if (wavelength > 2048 && wavelength < 8192) {
      CHECK(llama3[i] < plain[i]);
      CHECK(llama3[i] > plain[i] / 8.0F);
    }
  }
  CHECK(plain[0] == 1.0F);
}
