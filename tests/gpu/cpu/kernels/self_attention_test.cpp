// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/kernels/attention/self_attention.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "tests/gpu/cpu/kernels/random_values.hpp"

using namespace troupe;

namespace {

struct Heads {
  std::size_t count, dim;
  std::size_t width() const { return count * dim; }
};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
};

std::vector<BatchRows> ranges_of(const std::vector<std::uint32_t>& lengths) {
  std::vector<BatchRows> ranges;
  std::uint32_t first = 0;
  for (const auto length : lengths) {
    ranges.push_back({first, length});
    first += length;
  }
  return ranges;
}

// The scratch memory is full of NaN before every task.
std::vector<float> attend(const std::vector<float>& qkv, const std::vector<BatchRows>& slices, Heads heads,
                          Isa isa) {
  std::uint32_t longest = 0;
  for (const auto& slice : slices) longest = std::max(longest, slice.num_tokens);
  const std::size_t bytes = self_attention_scratch_bytes(longest, heads.dim);
  const std::unique_ptr<std::byte, Free> scratch(
      static_cast<std::byte*>(::operator new (bytes + 64, std::align_val_t{64})));
  std::vector<float> attended(qkv.size() / 3, NAN);
  const SelfAttentionArguments arguments{.slices = slices,
                                         .qkv = qkv.data(),
                                         .num_heads = heads.count,
                                         .head_dim = heads.dim,
                                         .attended = attended.data(),
                                         .scale = 1.0F / std::sqrt(static_cast<float>(heads.dim)),
                                         .isa = isa};
  for (std::size_t task = self_attention_num_tasks(arguments); task-- > 0;) {
    std::memset(scratch.get(), 0xFF, bytes);
    self_attention_run_task(arguments, task, scratch.get());
  }
  return attended;
}

// The softmax of one token and head over its slice, times the values.
std::vector<double> expected_row(const std::vector<float>& qkv, const BatchRows& slice, Heads heads,
                                 std::size_t token, std::size_t head) {
  const std::size_t stride = 3 * heads.width(), column = head * heads.dim;
  const auto row = [&](std::size_t i, std::size_t part) {
    return qkv.data() + (slice.first_token + i) * stride + part * heads.width() + column;
  };
  std::vector<double> weights(slice.num_tokens), sum(heads.dim);
  double total = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    double score = 0.0;
    for (std::size_t d = 0; d < heads.dim; ++d) score += double{row(token, 0)[d]} * row(i, 1)[d];
    weights[i] = std::exp(score / std::sqrt(static_cast<double>(heads.dim)));
    total += weights[i];
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
    for (std::size_t d = 0; d < heads.dim; ++d) sum[d] += weights[i] / total * row(i, 2)[d];
  return sum;
}

}  // namespace

TEST_CASE("self_attention: ragged slices equal f64 within 1e-5, to both sides of every token") {
  const auto slices = ranges_of({1, 32, 33, 7, 64, 150, 2, 31});
  const std::size_t num_tokens = slices.back().first_token + slices.back().num_tokens;
  for (const Isa isa : supported_isas()) {
    for (const Heads heads : {Heads{2, 32}, Heads{3, 24}, Heads{1, 64}, Heads{2, 8}, Heads{1, 256}}) {
      CAPTURE(name_of(isa));
      CAPTURE(heads.dim);
      const auto qkv = random_values(num_tokens * 3 * heads.width(), 7, 1.5F);
      const auto attended = attend(qkv, slices, heads, isa);
      for (const auto& slice : slices) {
        for (std::size_t token = 0; token < slice.num_tokens; ++token) {
          for (std::size_t head = 0; head < heads.count; ++head) {
            const auto expected = expected_row(qkv, slice, heads, token, head);
            for (std::size_t d = 0; d < heads.dim; ++d) {
              const std::size_t at = (slice.first_token + token) * heads.width() + head * heads.dim + d;
              REQUIRE(std::abs(attended[at] - expected[d]) <= 1e-5);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("self_attention: a slice's bits do not depend on its place or on what is beside it") {
  const Heads heads{3, 32};
  const auto slices = ranges_of({5, 64, 33, 1, 90});
  const auto qkv = random_values(193 * 3 * heads.width(), 9);
  for (const Isa isa : supported_isas()) {
    const auto all = attend(qkv, slices, heads, isa);
    for (const auto& slice : slices) {
      const std::vector<float> own(qkv.begin() + slice.first_token * 3 * heads.width(),
                                   qkv.begin() + (slice.first_token + slice.num_tokens) * 3 * heads.width());
      const auto alone = attend(own, ranges_of({slice.num_tokens}), heads, isa);
      REQUIRE(same_bits(alone.data(), &all[slice.first_token * heads.width()], alone.size()));
    }
  }
}

TEST_CASE("self_attention: bf16 results are f32 rounded, and no slices are no tasks") {
  const Heads heads{2, 32};
  const auto slices = ranges_of({40});
  const auto qkv = random_values(40 * 3 * heads.width(), 11);
  for (const Isa isa : supported_isas()) {
    const auto exact = attend(qkv, slices, heads, isa);
    std::vector<std::uint16_t> rounded(exact.size());
    const std::size_t bytes = self_attention_scratch_bytes(40, heads.dim);
    const std::unique_ptr<std::byte, Free> scratch(
        static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
    const SelfAttentionArguments arguments{.slices = slices,
                                           .qkv = qkv.data(),
                                           .num_heads = heads.count,
                                           .head_dim = heads.dim,
                                           .attended = rounded.data(),
                                           .attended_type = DataType::kBF16,
                                           .scale = 1.0F / std::sqrt(32.0F),
                                           .isa = isa};
    for (std::size_t task = 0; task < self_attention_num_tasks(arguments); ++task)
      self_attention_run_task(arguments, task, scratch.get());
    CHECK(rounded == to_bf16(exact));
  }
  CHECK(self_attention_num_tasks({.slices = {}, .num_heads = 4}) == 0);
}
