// SPDX-License-Identifier: Apache-2.0
#include "gpu/operators/head_norm.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "gpu/cpu/kernels/head_norm.hpp"
#include "gpu/cuda/kernels/attention/head_norm.hpp"
#include "tests/gpu/operators/backends.hpp"

using namespace troupe;

namespace head_norm_test {
namespace {

constexpr std::size_t kHeads = 3, kKvHeads = 2;

struct Input {
  std::size_t tokens, head_dim;
  std::vector<float> qkv, query_weight, key_weight;

  // A GPU has qkv in the backend's type, a CPU in f32.
  Input(const OperatorBackend& backend, std::size_t tokens, std::size_t head_dim)
      : tokens(tokens),
        head_dim(head_dim),
        qkv(as_stored(backend.is_gpu ? backend.type : DataType::kF32,
                      random_values(tokens * width(), 1, 3.0F))),
        query_weight(random_values(head_dim, 2)),
        key_weight(random_values(head_dim, 3)) {}

  std::size_t width() const { return (kHeads + 2 * kKvHeads) * head_dim; }
};

std::vector<float> on_cpu(const OperatorBackend& backend, const Input& input) {
  std::vector<float> qkv = input.qkv;
  const HeadNormArguments arguments{.qkv = qkv.data(),
                                    .qkv_stride = input.width(),
                                    .query_weight = input.query_weight.data(),
                                    .key_weight = input.key_weight.data(),
                                    .num_rows = input.tokens,
                                    .num_heads = kHeads,
                                    .num_kv_heads = kKvHeads,
                                    .head_dim = input.head_dim,
                                    .isa = backend.isa};
  run_tasks(arguments, head_norm_num_tasks(arguments), head_norm_run_task);
  return qkv;
}

std::vector<float> on_gpu(const OperatorBackend& backend, const Input& input) {
  TypedBuffer qkv(backend.type, input.qkv);
  DeviceArray<float> query_weight(input.query_weight), key_weight(input.key_weight);
  cuda::launch_head_norm({.qkv = qkv.data(),
                          .qkv_stride = input.width(),
                          .query_weight = query_weight.data(),
                          .key_weight = key_weight.data(),
                          .type = backend.type,
                          .num_tokens = static_cast<std::uint32_t>(input.tokens),
                          .num_heads = kHeads,
                          .num_kv_heads = kKvHeads,
                          .head_dim = static_cast<std::uint32_t>(input.head_dim)},
                         nullptr);
  return qkv.values();
}

}  // namespace

TEST_CASE("head_norm: query and key heads equal f64, each by its weight, and values stay") {
  on_every_backend([](const OperatorBackend& backend) {
    const double rounding =
        backend.is_gpu && backend.type != DataType::kF32 ? rounding_of(backend.type) : 0.0;
    for (const std::size_t head_dim : {8, 24, 64, 128}) {
      for (const std::size_t tokens : {0, 1, 9}) {
        CAPTURE(head_dim);
        const Input input(backend, tokens, head_dim);
        const auto qkv = backend.is_gpu ? on_gpu(backend, input) : on_cpu(backend, input);
        REQUIRE(qkv.size() == input.qkv.size());
        for (std::size_t head = 0; head < tokens * (kHeads + 2 * kKvHeads); ++head) {
          const std::size_t first = head * head_dim, of_token = head % (kHeads + 2 * kKvHeads);
          double squares = 0.0;
          for (std::size_t i = first; i < first + head_dim; ++i)
            squares += double{input.qkv[i]} * input.qkv[i];
          const double scale = 1.0 / std::sqrt(squares / static_cast<double>(head_dim) + 1e-6);
          const auto& weight = of_token < kHeads ? input.query_weight : input.key_weight;
          for (std::size_t i = 0; i < head_dim; ++i) {
            const float x = input.qkv[first + i];
            const double expected = of_token < kHeads + kKvHeads ? x * scale * weight[i] : x;
            REQUIRE(std::abs(qkv[first + i] - expected) <= (2e-6 + rounding) * std::abs(expected) + 1e-7);
          }
        }
      }
    }
  });
}

}  // namespace head_norm_test
