// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/rotary_append_kv.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "gpu/cpu/kernels/attention/rotary_append_kv.hpp"
#include "gpu/cuda/kernels/attention/rotary_append_kv.hpp"
#include "gpu/program/batch.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace rotary_append_kv_test {
namespace {

constexpr std::uint32_t kHeads = 4, kKvHeads = 2, kLayer = 1, kMaxPositions = 100;

// Two slices, one across a page's end.
struct Input {
  KvLayout layout;
  std::vector<TokenPlace> places;
  std::vector<float> qkv;  // as the backend's type can hold it
  bool rotates = true;
  std::size_t rotary_dim = layout.head_dim;  // the first elements of a head

  Input(const OperatorBackend& backend, std::size_t head_dim)
      : layout{.num_layers = 2,
               .num_pages = 5,
               .num_kv_heads = kKvHeads,
               .head_dim = head_dim,
               .type = backend.type} {
    std::vector<SequenceSlice> slices(2);
    slices[0].num_tokens = 20;
    slices[0].context_length = 20;
    slices[1].num_tokens = 1;
    slices[1].context_length = 95;
    slices[1].first_page = 2;
    place_tokens(slices, std::vector<PageId>{4, 1, 0, 0, 3}, places);
    qkv = as_stored(backend.type, random_values(places.size() * width(), 5));
  }
  std::size_t width() const { return (kHeads + 2 * kKvHeads) * layout.head_dim; }
  RotaryTable table() const {
    return RotaryTable({.rotary_dim = rotary_dim, .max_positions = kMaxPositions});
  }
};

struct Output {
  std::vector<float> qkv;
  std::vector<float> pool;  // NaN where nothing was written
};

std::vector<float> floats_of(DataType type, const std::vector<std::byte>& bytes) {
  if (type == DataType::kF32) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<std::uint16_t> values(bytes.size() / sizeof(std::uint16_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return widened(type, values);
}

std::vector<std::byte> unwritten_pool(const KvLayout& layout) {
  return std::vector<std::byte>(kv_pool_bytes(layout), std::byte{0xFF});
}

Output on_cpu(const OperatorBackend& backend, const Input& input) {
  auto qkv = input.qkv;
  auto pool = unwritten_pool(input.layout);
  const RotaryTable table = input.table();
  const RotaryAppendKvArguments arguments{.qkv = qkv.data(),
                                          .qkv_stride = input.width(),
                                          .places = input.places,
                                          .num_heads = kHeads,
                                          .table = input.rotates ? &table : nullptr,
                                          .kv_pool = pool.data(),
                                          .layout = input.layout,
                                          .layer = kLayer,
                                          .isa = backend.isa};
  run_tasks(arguments, rotary_append_kv_num_tasks(arguments), rotary_append_kv_run_task);
  return {qkv, floats_of(backend.type, pool)};
}

Output on_gpu(const OperatorBackend& backend, const Input& input) {
  const RotaryTable table = input.table();
  TypedBuffer qkv(backend.type, input.qkv);
  DeviceArray<TokenPlace> places(input.places);
  DeviceArray<float> angles(
      std::vector<float>(table.row(0), table.row(0) + kMaxPositions * input.rotary_dim));
  DeviceArray<std::byte> pool(unwritten_pool(input.layout));
  cuda::launch_rotary_append_kv(
      {.qkv = qkv.data(),
       .qkv_stride = input.width(),
       .places = places.data(),
       .num_tokens = static_cast<std::uint32_t>(input.places.size()),
       .num_heads = kHeads,
       .rotary_dim = input.rotates ? static_cast<std::uint32_t>(input.rotary_dim) : 0,
       .cosines_sines = angles.data(),
       .pool = pool.data(),
       .layout = input.layout,
       .layer = kLayer},
      nullptr);
  return {qkv.values(), floats_of(backend.type, pool.values())};
}

Output run(const OperatorBackend& backend, const Input& input) {
  return backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input);
}

// Element d of a head rotated to `position`, in f64.
double rotated(const Input& input, const float* head, std::size_t d, std::size_t position) {
  if (!input.rotates || d >= input.rotary_dim) return head[d];
  const std::size_t half = input.rotary_dim / 2;
  const double angle =
      static_cast<double>(position) *
      std::pow(10000.0, -2.0 * static_cast<double>(d % half) / static_cast<double>(input.rotary_dim));
  const double other = d < half ? -head[d + half] : head[d - half];
  return head[d] * std::cos(angle) + other * std::sin(angle);
}

void check_queries(const Input& input, const Output& output, double allowed) {
  const std::size_t head_dim = input.layout.head_dim;
  for (std::size_t token = 0; token < input.places.size(); ++token) {
    for (std::size_t i = 0; i < kHeads * head_dim; ++i) {
      const float* head = &input.qkv[token * input.width() + i / head_dim * head_dim];
      const double expected = rotated(input, head, i % head_dim, input.places[token].position);
      REQUIRE(std::abs(output.qkv[token * input.width() + i] - expected) <= allowed);
    }
  }
}

// Queries, and a pool in 8 bits as it is.
std::pair<Output, std::vector<std::byte>> pool_in_8_bits(Isa isa, const Input& input) {
  auto qkv = input.qkv;
  auto pool = unwritten_pool(input.layout);
  const RotaryTable table = input.table();
  const RotaryAppendKvArguments arguments{.qkv = qkv.data(),
                                          .qkv_stride = input.width(),
                                          .places = input.places,
                                          .num_heads = kHeads,
                                          .table = input.rotates ? &table : nullptr,
                                          .kv_pool = pool.data(),
                                          .layout = input.layout,
                                          .layer = kLayer,
                                          .isa = isa};
  run_tasks(arguments, rotary_append_kv_num_tasks(arguments), rotary_append_kv_run_task);
  return {{qkv, {}}, pool};
}

const std::byte* block_of(const Input& input, const std::vector<std::byte>& pool, std::size_t token,
                          std::size_t head) {
  return pool.data() + kv_block_offset(input.layout, kLayer, input.places[token].page, head);
}

float scale_at(const std::byte* block, std::size_t offset) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, block + offset, sizeof bits);
  return widened(DataType::kBF16, {bits}).front();
}

void check_8_bits(const Input& input, const std::vector<std::byte>& pool) {
  const KvLayout& layout = input.layout;
  const auto number = [](const std::byte* block, std::size_t element) {
    return static_cast<double>(reinterpret_cast<const std::int8_t*>(block)[element]);
  };
  for (std::size_t token = 0; token < input.places.size(); ++token) {
    const std::size_t position = input.places[token].position, slot = position % kKvPageTokens;
    for (std::size_t head = 0; head < kKvHeads; ++head) {
      const float* key = &input.qkv[token * input.width() + (kHeads + head) * layout.head_dim];
      const float* value = key + kKvHeads * layout.head_dim;
      const std::byte* block = block_of(input, pool, token, head);
      const double of_key = scale_at(block, kv_key_scale(layout, slot));
      const double of_value = scale_at(block, kv_value_scale(layout, slot));
      double highest = 0.0;
      for (std::size_t d = 0; d < layout.head_dim; ++d) {
        highest = std::max(highest, std::abs(double{value[d]}));
        REQUIRE(std::abs(number(block, kv_key_element(layout, slot, d)) * of_key -
                         rotated(input, key, d, position)) <= 0.5001 * of_key + 1e-5);
        REQUIRE(std::abs(number(block, kv_value_element(layout, slot, d)) * of_value - value[d]) <=
                0.5001 * of_value);
      }
      REQUIRE(of_value >= highest / 127);
      REQUIRE(of_value <= highest / 127 * 1.008);
    }
  }
}

void check_pages(const Input& input, const Output& output, double allowed) {
  const KvLayout& layout = input.layout;
  for (std::size_t token = 0; token < input.places.size(); ++token) {
    const TokenPlace& place = input.places[token];
    for (std::size_t head = 0; head < kKvHeads; ++head) {
      const float* block =
          &output.pool[kv_block_offset(layout, kLayer, place.page, head) / size_of(layout.type)];
      const float* key = &input.qkv[token * input.width() + (kHeads + head) * layout.head_dim];
      const float* value = key + kKvHeads * layout.head_dim;
      for (std::size_t d = 0; d < layout.head_dim; ++d) {
        const std::size_t slot = place.position % kKvPageTokens;
        REQUIRE(std::abs(block[kv_key_element(layout, slot, d)] - rotated(input, key, d, place.position)) <=
                allowed);
        REQUIRE(block[kv_value_element(layout, slot, d)] == value[d]);
      }
    }
  }
}

// Keys and values of all layers, pages and slots that are there.
std::size_t num_written(const Input& input, const Output& output) {
  const KvLayout& layout = input.layout;
  const std::size_t block_size = kv_block_bytes(layout) / size_of(layout.type);
  std::size_t count = 0;
  for (std::size_t first = 0; first < output.pool.size(); first += block_size) {
    for (std::size_t i = 0; i < kKvPageTokens * layout.head_dim; ++i) {
      const std::size_t slot = i / layout.head_dim, d = i % layout.head_dim;
      count += std::isnan(output.pool[first + kv_key_element(layout, slot, d)]) ? 0 : 1;
      count += std::isnan(output.pool[first + kv_value_element(layout, slot, d)]) ? 0 : 1;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("rotary_append_kv: queries are rotated, keys and values land in their pages and nowhere else") {
  on_every_backend([](const OperatorBackend& backend) {
    const double rounding = backend.type == DataType::kF32 ? 0.0 : 4 * rounding_of(backend.type);
    for (const std::size_t head_dim : {8, 24, 64, 128}) {
      CAPTURE(head_dim);
      const Input input(backend, head_dim);
      CHECK(input.places[12].page == 1);
      CHECK(input.places[20].position == 95);
      CHECK(input.places[20].page == 3);
      const Output output = run(backend, input);
      check_queries(input, output, 2e-5 + (backend.is_gpu ? rounding : 0.0));
      check_pages(input, output, 2e-5 + rounding);
      CHECK(num_written(input, output) == input.places.size() * kKvHeads * 2 * head_dim);
    }
  });
}

TEST_CASE("rotary_append_kv: no tokens are no work") {
  on_every_backend([](const OperatorBackend& backend) {
    Input input(backend, 8);
    input.places.clear();
    input.qkv.clear();
    CHECK(num_written(input, run(backend, input)) == 0);
  });
}

TEST_CASE("rotary_append_kv: behind the part of a head that is rotated elements stay as they are") {
  on_every_backend([](const OperatorBackend& backend) {
    const double rounding = backend.type == DataType::kF32 ? 0.0 : 4 * rounding_of(backend.type);
    for (const std::size_t rotary_dim : {4, 16, 20}) {
      CAPTURE(rotary_dim);
      Input input(backend, 24);
      input.rotary_dim = rotary_dim;
      const Output output = run(backend, input);
      check_queries(input, output, 2e-5 + (backend.is_gpu ? rounding : 0.0));
      check_pages(input, output, 2e-5 + rounding);
      CHECK(num_written(input, output) == input.places.size() * kKvHeads * 2 * 24);
    }
  });
}

TEST_CASE("rotary_append_kv: a layer without positions keeps its heads as they are") {
  on_every_backend([](const OperatorBackend& backend) {
    Input input(backend, 24);
    input.rotates = false;
    const Output output = run(backend, input);
    CHECK(output.qkv == input.qkv);
    // The CPU rounds what it appends.
    check_pages(input, output,
                backend.is_gpu || backend.type == DataType::kF32 ? 0.0 : 4 * rounding_of(backend.type));
  });
}

TEST_CASE(
    "rotary_append_kv: in 8 bits keys and values are within half a step of f64, steps by their largest") {
  for (const Isa isa : supported_isas()) {
    for (const DataType type : {DataType::kF32, DataType::kBF16}) {
      for (const std::size_t head_dim : {24, 64}) {
        CAPTURE(name_of(isa));
        CAPTURE(name_of(type));
        const OperatorBackend backend{.isa = isa, .type = DataType::kF32};
        Input input(backend, head_dim);
        input.layout.type = type;
        input.layout.kv_type = KvType::kQ8;
        const auto pool = pool_in_8_bits(isa, input);
        check_queries(input, pool.first, 1e-5);
        check_8_bits(input, pool.second);
      }
    }
  }
}

TEST_CASE("rotary_append_kv: in 8 bits zeros stay zeros, and what is not finite gets a scale that is not") {
  for (const Isa isa : supported_isas()) {
    CAPTURE(name_of(isa));
    const OperatorBackend backend{.isa = isa, .type = DataType::kF32};
    Input input(backend, 24);
    input.layout.kv_type = KvType::kQ8;
    input.rotates = false;
    float* key = &input.qkv[kHeads * 24];
    std::fill_n(key, 24, 0.0F);
    key[24] = INFINITY;
    const auto pool = pool_in_8_bits(isa, input).second;
    const std::byte* block = block_of(input, pool, 0, 0);
    const std::size_t slot = input.places[0].position % kKvPageTokens;
    CHECK(scale_at(block, kv_key_scale(input.layout, slot)) == 0.0F);
    for (std::size_t d = 0; d < 24; ++d) CHECK(block[kv_key_element(input.layout, slot, d)] == std::byte{0});
    const std::byte* broken = block_of(input, pool, 0, 1);
    CHECK(std::isnan(scale_at(broken, kv_key_scale(input.layout, slot))));
    CHECK(std::isfinite(scale_at(broken, kv_value_scale(input.layout, slot))));
  }
}

}  // namespace rotary_append_kv_test
