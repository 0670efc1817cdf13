// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/self_attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>

#include "gpu/cpu/kernels/attention/self_attention.hpp"
#include "gpu/cuda/kernels/attention/self_attention.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace self_attention_test {
namespace {

struct Input {
  std::size_t num_heads, head_dim;
  std::vector<std::uint32_t> lengths;  // of slices
  std::vector<float> qkv;              // as the backend's type can hold it
  std::uint32_t num_padding = 0;       // of the last slice

  Input(const OperatorBackend& backend, std::size_t num_heads, std::size_t head_dim,
        std::vector<std::uint32_t> lengths)
      : num_heads(num_heads),
        head_dim(head_dim),
        lengths(std::move(lengths)),
        qkv(as_stored(backend.type, random_values(num_tokens() * 3 * width(), 7, 1.5F))) {}

  std::size_t width() const { return num_heads * head_dim; }
  std::size_t num_tokens() const { return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}); }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(head_dim)); }
  std::vector<BatchRows> slices() const {
    std::vector<BatchRows> slices;
    std::uint32_t first = 0;
    for (const std::uint32_t length : lengths) {
      slices.push_back({first, length});
      first += length;
    }
    if (num_padding > 0) slices.back().num_padding = num_padding;
    return slices;
  }
};

struct Free {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
};

// The scratch memory is full of NaN before every task.
std::vector<float> on_cpu(const OperatorBackend& backend, const Input& input) {
  const auto slices = input.slices();
  const std::uint32_t longest =
      input.lengths.empty() ? 1 : *std::max_element(input.lengths.begin(), input.lengths.end());
  const std::size_t bytes = self_attention_scratch_bytes(longest, input.head_dim);
  const std::unique_ptr<std::byte, Free> scratch(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
  CpuBuffer attended(backend.type, std::vector<float>(input.num_tokens() * input.width(), NAN));
  const SelfAttentionArguments arguments{.slices = slices,
                                         .qkv = input.qkv.data(),
                                         .num_heads = input.num_heads,
                                         .head_dim = input.head_dim,
                                         .attended = attended.data(),
                                         .attended_type = backend.type,
                                         .scale = input.scale(),
                                         .isa = backend.isa};
  for (std::size_t task = self_attention_num_tasks(arguments); task-- > 0;) {
    std::memset(scratch.get(), 0xFF, bytes);
    self_attention_run_task(arguments, task, scratch.get());
  }
  return attended.values();
}

std::vector<float> on_gpu(const OperatorBackend& backend, const Input& input) {
  std::vector<SequenceSlice> slices;
  for (const std::uint32_t length : input.lengths) slices.emplace_back().num_tokens = length;
  if (input.num_padding > 0) slices.back().num_padding = input.num_padding;
  const auto plan = cuda::plan_self_attention(slices).tiles;
  DeviceArray<cuda::SelfAttentionTile> tiles(plan);
  TypedBuffer qkv(backend.type, input.qkv),
      attended(backend.type, std::vector<float>(input.num_tokens() * input.width(), NAN));
  cuda::launch_self_attention({.tiles = tiles.data(),
                               .num_tiles = static_cast<std::uint32_t>(plan.size()),
                               .qkv = qkv.data(),
                               .num_heads = static_cast<std::uint32_t>(input.num_heads),
                               .head_dim = static_cast<std::uint32_t>(input.head_dim),
                               .attended = attended.data(),
                               .type = backend.type,
                               .scale = input.scale()},
                              nullptr);
  return attended.values();
}

std::vector<float> run(const OperatorBackend& backend, const Input& input) {
  return backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input);
}

// The softmax of one token and head over its slice, times the values.
std::vector<double> expected_row(const Input& input, const BatchRows& slice, std::size_t token,
                                 std::size_t head) {
  const auto row = [&](std::size_t i, std::size_t part) {
    return input.qkv.data() + ((slice.first_token + i) * 3 + part) * input.width() + head * input.head_dim;
  };
  std::vector<double> weights(slice.num_content()), sum(input.head_dim);
  double total = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    double score = 0.0;
    for (std::size_t d = 0; d < input.head_dim; ++d) score += double{row(token, 0)[d]} * row(i, 1)[d];
    weights[i] = std::exp(score / std::sqrt(static_cast<double>(input.head_dim)));
    total += weights[i];
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
    for (std::size_t d = 0; d < input.head_dim; ++d) sum[d] += weights[i] / total * row(i, 2)[d];
  return sum;
}

double worst_against_f64(const Input& input, const std::vector<float>& attended) {
  REQUIRE(attended.size() == input.num_tokens() * input.width());
  double worst = 0.0;
  for (const BatchRows& slice : input.slices()) {
    for (std::size_t token = 0; token < slice.num_tokens; ++token) {
      for (std::size_t head = 0; head < input.num_heads; ++head) {
        const auto expected = expected_row(input, slice, token, head);
        for (std::size_t d = 0; d < input.head_dim; ++d) {
          const std::size_t at = (slice.first_token + token) * input.width() + head * input.head_dim + d;
          const double error = std::abs(attended[at] - expected[d]) / std::max(1.0, std::abs(expected[d]));
          worst = std::isnan(error) ? error : std::max(worst, error);
        }
      }
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("self_attention: ragged slices equal f64, to both sides of every token") {
  on_every_backend([](const OperatorBackend& backend) {
    const double rounding = backend.type == DataType::kF32 ? 0.0 : rounding_of(backend.type);
    for (const std::size_t head_dim : {8, 24, 64, 256}) {
      CAPTURE(head_dim);
      const Input input(backend, head_dim > 64 ? 1 : 2, head_dim, {1, 33, 7, 50});
      CHECK(worst_against_f64(input, run(backend, input)) <= 1e-5 + rounding);
    }
  });
}

TEST_CASE("self_attention: a slice's bits do not depend on its place or on what is beside it") {
  on_every_backend([](const OperatorBackend& backend) {
    const Input input(backend, 2, 32, {5, 40, 1});
    const auto all = run(backend, input);
    for (const BatchRows& slice : input.slices()) {
      Input alone(backend, 2, 32, {slice.num_tokens});
      alone.qkv = rows_of(input.qkv, 3 * input.width(), slice.first_token, slice.num_tokens);
      REQUIRE(run(backend, alone) == rows_of(all, input.width(), slice.first_token, slice.num_tokens));
    }
  });
}

TEST_CASE("self_attention: padding attends as other tokens do, and nothing attends to it") {
  on_every_backend([](const OperatorBackend& backend) {
    const double rounding = backend.type == DataType::kF32 ? 0.0 : rounding_of(backend.type);
    Input input(backend, 2, 32, {5, 70});
    for (const std::uint32_t num_padding : {1, 31, 69}) {
      CAPTURE(num_padding);
      input.num_padding = num_padding;
      const auto padded = run(backend, input);
      CHECK(worst_against_f64(input, padded) <= 1e-5 + rounding);
      Input alone(backend, 2, 32, {70 - num_padding});
      alone.qkv = rows_of(input.qkv, 3 * input.width(), 5, alone.num_tokens());
      CHECK(run(backend, alone) == rows_of(padded, input.width(), 5, alone.num_tokens()));
    }
  });
}

TEST_CASE("self_attention: no slices are no work") {
  on_every_backend(
      [](const OperatorBackend& backend) { CHECK(run(backend, Input(backend, 2, 32, {})).empty()); });
}

}  // namespace self_attention_test
