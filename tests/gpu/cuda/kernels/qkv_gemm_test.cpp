// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/gemm/qkv_gemm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "gpu/cuda/kernels/attention/rotary_append_kv.hpp"
#include "gpu/cuda/kernels/gemm/few_token_gemm.hpp"
#include "gpu/operators/rotary_table.hpp"
#include "tests/gpu/cuda/kernels/few_token_operands.hpp"

using namespace troupe;

namespace qkv_gemm_test {
namespace {

constexpr std::uint32_t kPositions = 100;
constexpr std::size_t kPadding = 8;  // elements between rows of queries
constexpr float kUntouched = 7.0F;

struct Heads {
  std::uint32_t heads, kv_heads, head_dim;
  std::uint32_t queries() const { return heads * head_dim; }
  std::uint32_t outputs() const { return (heads + 2 * kv_heads) * head_dim; }
};

KvLayout layout_of(const Heads& heads, DataType type) {
  return {.num_layers = 2,
          .num_pages = 3,
          .num_kv_heads = heads.kv_heads,
          .head_dim = heads.head_dim,
          .type = type};
}

// No two the same.
std::vector<TokenPlace> places_of(std::uint32_t tokens) {
  std::vector<TokenPlace> places;
  for (std::uint32_t i = 0; i < tokens; ++i) {
    places.push_back({.position = (i * 7 + 30) % kPositions, .page = (i + 2) % 3});
  }
  return places;
}

// Device memory of one product, and what is in it afterwards.
struct Outcome {
  Outcome(const Heads& heads, DataType type, std::uint32_t tokens)
      : layout(layout_of(heads, type)),
        queries(type, std::vector<float>(tokens * (heads.queries() + kPadding), kUntouched)),
        pool(type, std::vector<float>(kv_pool_bytes(layout) / 2, kUntouched)) {}
  KvLayout layout;
  TypedBuffer queries, pool;
};

struct Rotation {
  explicit Rotation(std::uint32_t head_dim)
      : table({.rotary_dim = head_dim, .max_positions = kPositions}),
        angles(std::vector<float>(table.row(0), table.row(0) + kPositions * head_dim)) {}
  RotaryTable table;
  DeviceArray<float> angles;
};

void multiply(const Heads& heads, const std::vector<TokenPlace>& token_places, FewTokenOperands& operands,
              const float* angles, Outcome& to) {
  DeviceArray<TokenPlace> places(token_places);
  cuda::launch_qkv_gemm({.input = operands.input(),
                         .queries = to.queries.data(),
                         .query_stride = heads.queries() + kPadding,
                         .places = places.data(),
                         .num_heads = heads.heads,
                         .cosines_sines = angles,
                         .pool = static_cast<std::byte*>(to.pool.data()),
                         .layout = to.layout,
                         .layer = 1},
                        nullptr);
  to.queries.values();  // waits, before places end
}

// What f64 would leave in queries and pool.
struct Expected {
  std::vector<double> queries, pool;
};
Expected expected_of(const Heads& heads, const std::vector<TokenPlace>& places,
                     const FewTokenOperands& operands, const RotaryTable* table, const KvLayout& layout) {
  const std::size_t head_dim = heads.head_dim, half = head_dim / 2;
  Expected expected{std::vector<double>(places.size() * (heads.queries() + kPadding), kUntouched),
                    std::vector<double>(kv_pool_bytes(layout) / 2, kUntouched)};
  const auto sums = operands.sums();
  for (std::size_t token = 0; token < places.size(); ++token) {
    const auto [position, page] = places[token];
    for (std::size_t output = 0; output < heads.outputs(); ++output) {
      const std::size_t head = output / head_dim, d = output % head_dim;
      const double* row = &sums[token * heads.outputs() + head * head_dim];
      double value = row[d];
      if (table != nullptr && head < heads.heads + heads.kv_heads) {
        const float* angles = table->row(position) + d % half;
        value = d < half ? row[d] * angles[0] - row[d + half] * angles[half]
                         : row[d] * angles[0] + row[d - half] * angles[half];
      }
      if (head < heads.heads) {
        expected.queries[token * (heads.queries() + kPadding) + output] = value;
        continue;
      }
      const bool is_key = head < heads.heads + heads.kv_heads;
      const std::size_t kv_head = (head - heads.heads) % heads.kv_heads;
      const std::size_t block = kv_block_offset(layout, 1, page, kv_head) / 2;
      expected.pool[block + (is_key ? kv_key_element(layout, position % kKvPageTokens, d)
                                    : kv_value_element(layout, position % kKvPageTokens, d))] = value;
    }
  }
  return expected;
}

template <typename Value>
double worst_difference(const std::vector<float>& left, const std::vector<Value>& right) {
  REQUIRE(left.size() == right.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    worst = std::max(worst, error_of(left[i], right[i]));
  }
  return worst;
}

void check_against_f64(const Heads& heads, FewTokenCase c, bool has_rotation = true) {
  CAPTURE(c.tokens);
  CAPTURE(heads.head_dim);
  c.outputs = heads.outputs();
  FewTokenOperands operands(c);
  Rotation rotation(heads.head_dim);
  const auto places = places_of(c.tokens);
  Outcome outcome(heads, c.type, c.tokens);
  multiply(heads, places, operands, has_rotation ? rotation.angles.data() : nullptr, outcome);
  const Expected expected =
      expected_of(heads, places, operands, has_rotation ? &rotation.table : nullptr, outcome.layout);
  CHECK(worst_difference(outcome.queries.values(), expected.queries) < rounding_of(c.type) + 1e-5);
  CHECK(worst_difference(outcome.pool.values(), expected.pool) < rounding_of(c.type) + 1e-5);
}

}  // namespace

TEST_CASE("cuda qkv product: equals f64, in the places of queries, keys and values") {
  check_against_f64({2, 1, 64}, {.tokens = 1, .depth = 64});
  check_against_f64({2, 1, 128}, {.tokens = 8, .depth = 40, .has_bias = true});
  check_against_f64({4, 2, 16}, {.tokens = 9, .depth = 136, .has_bias = true, .is_scaled = true});
  check_against_f64({1, 1, 64}, {.tokens = 17, .depth = 72, .is_scaled = true});
  check_against_f64({3, 1, 8}, {.tokens = 33, .depth = 40});
  check_against_f64({2, 2, 64}, {.tokens = 64, .depth = 24, .has_bias = true});
  check_against_f64({2, 1, 80}, {.tokens = 3, .depth = 32});
  check_against_f64({2, 1, 16}, {.tokens = 2, .depth = 2056, .is_scaled = true});  // shared
  check_against_f64({2, 1, 64}, {.tokens = 2, .depth = 40, .type = DataType::kF16});
  check_against_f64({2, 1, 64}, {.tokens = 0, .depth = 64});
}

TEST_CASE("cuda qkv product: without angles nothing is rotated") {
  check_against_f64({2, 1, 32}, {.tokens = 5, .depth = 64, .has_bias = true}, false);
}

TEST_CASE("cuda qkv product: any order of threads gives the same") {
  in_several_orders([] { check_against_f64({2, 1, 32}, {.tokens = 10, .depth = 72, .has_bias = true}); });
}

TEST_CASE("cuda qkv product: does what the product and the rotation did") {
  const Heads heads{2, 1, 64};
  const FewTokenCase c{5, heads.outputs(), 72, true};
  FewTokenOperands operands(c);
  Rotation rotation(64);
  const auto places = places_of(c.tokens);
  Outcome fused(heads, c.type, c.tokens), unfused(heads, c.type, c.tokens);
  multiply(heads, places, operands, rotation.angles.data(), fused);

  TypedBuffer qkv(c.type, std::vector<float>(c.tokens * c.outputs));
  DeviceArray<TokenPlace> device_places(places);
  cuda::launch_few_token_gemm({.input = operands.input(), .c = qkv.data(), .c_stride = c.outputs}, nullptr);
  cuda::launch_rotary_append_kv({.qkv = qkv.data(),
                                 .qkv_stride = c.outputs,
                                 .places = device_places.data(),
                                 .num_tokens = c.tokens,
                                 .num_heads = heads.heads,
                                 .rotary_dim = 64,
                                 .cosines_sines = rotation.angles.data(),
                                 .pool = static_cast<std::byte*>(unfused.pool.data()),
                                 .layout = unfused.layout,
                                 .layer = 1},
                                nullptr);
  // Sums are about sqrt(depth) and were rounded before they were rotated.
  const double allowed = std::sqrt(c.depth) * rounding_of(c.type);
  CHECK(worst_difference(fused.pool.values(), unfused.pool.values()) < 2 * allowed);
  const auto queries = fused.queries.values(), rotated = qkv.values();
  double worst = 0.0;
  for (std::size_t i = 0; i < c.tokens * heads.queries(); ++i) {
    const std::size_t token = i / heads.queries(), column = i % heads.queries();
    worst = std::max(worst, error_of(queries[token * (heads.queries() + kPadding) + column],
                                     rotated[token * c.outputs + column]));
  }
  CHECK(worst < 2 * allowed);
}

TEST_CASE("cuda qkv product: a token has the same bits alone and among others") {
  const Heads heads{2, 1, 32};
  const FewTokenCase c{16, heads.outputs(), 520, true, true};
  FewTokenOperands all(c), last(c, 7, 9);
  Rotation rotation(32);
  const auto places = places_of(c.tokens);
  Outcome of_all(heads, c.type, 16), of_last(heads, c.type, 9);
  multiply(heads, places, all, rotation.angles.data(), of_all);
  multiply(heads, {places.begin() + 7, places.end()}, last, rotation.angles.data(), of_last);
  const auto left = of_last.queries.values(), right = of_all.queries.values();
  CHECK(same_bits(left.data(), &right[right.size() - left.size()], left.size()));
}

TEST_CASE("cuda qkv product: widths and types that do not fit are refused in words") {
  CHECK_THROWS_WITH_AS(cuda::launch_qkv_gemm({.input = {.num_tokens = 1, .num_outputs = 100},
                                              .num_heads = 2,
                                              .layout = {.num_kv_heads = 1, .head_dim = 32}},
                                             nullptr),
                       "queries, keys and values are heads of an even width, 128 outputs "
                       "together, not 100",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      cuda::launch_qkv_gemm({.input = {.num_tokens = 1, .num_outputs = 128},
                             .num_heads = 2,
                             .layout = {.num_kv_heads = 1, .head_dim = 32, .type = DataType::kF32}},
                            nullptr),
      "keys and values are stored in the type of what is multiplied, bf16, not "
      "in f32",
      std::invalid_argument);
}

}  // namespace qkv_gemm_test
