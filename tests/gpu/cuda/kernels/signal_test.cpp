// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/signal.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "gpu/cuda/kernels/embed.hpp"
#include "tests/gpu/cuda/kernels/device_array.hpp"

using namespace troupe;

TEST_CASE("cuda signal: tokens and then the batch's number reach the host's memory") {
  in_several_orders([] {
    for (const std::uint32_t count : {0U, 1U, 300U}) {
      std::vector<std::int32_t> tokens(count);
      std::iota(tokens.begin(), tokens.end(), 5);
      DeviceArray<std::int32_t> sampled(tokens), on_host(std::vector<std::int32_t>(count, -1));
      DeviceArray<std::uint64_t> word(std::vector<std::uint64_t>{6});
      cuda::launch_signal({.token_ids = sampled.data(),
                           .num_tokens = count,
                           .host_token_ids = on_host.data(),
                           .word = word.data(),
                           .batch = 7},
                          nullptr);
      CHECK(word.values()[0] == 7);
      CHECK(on_host.values() == tokens);
    }
  });
}

TEST_CASE("cuda signal: log-probabilities come as far as they were asked for") {
  in_several_orders([] {
    for (const std::uint32_t count : {1U, 7U}) {
      std::vector<cuda::RowLogprobs> rows(count);
      for (std::uint32_t i = 0; i < count; ++i) {
        rows[i].logprob = -static_cast<float>(i);
        rows[i].num_top = i * 3;
        for (std::uint32_t rank = 0; rank < kMaxTopLogprobs; ++rank)
          rows[i].top[rank] = {static_cast<std::int32_t>(100 * i + rank), -1.0F};
      }
      DeviceArray<cuda::RowLogprobs> on_device(rows), on_host{std::vector<cuda::RowLogprobs>(count)};
      DeviceArray<std::uint64_t> word(std::vector<std::uint64_t>{0});
      cuda::launch_signal({.logprobs = on_device.data(),
                           .num_logprobs = count,
                           .host_logprobs = on_host.data(),
                           .word = word.data(),
                           .batch = 1},
                          nullptr);
      CHECK(word.values()[0] == 1);
      const auto values = on_host.values();
      for (std::uint32_t i = 0; i < count; ++i) {
        CHECK(values[i].logprob == rows[i].logprob);
        REQUIRE(values[i].num_top == rows[i].num_top);
        for (std::uint32_t rank = 0; rank < rows[i].num_top; ++rank)
          CHECK(values[i].top[rank] == rows[i].top[rank]);
      }
    }
  });
}

TEST_CASE("cuda signal: the host learns how long ago the embedding began") {
  DeviceArray<float> table(std::vector<float>(8, 1.0F)), x(std::vector<float>(8));
  DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{0});
  DeviceArray<std::uint64_t> began(std::vector<std::uint64_t>{0}), taken(std::vector<std::uint64_t>{0}),
      word(std::vector<std::uint64_t>{0});
  const auto start = std::chrono::steady_clock::now();
  cuda::launch_embed({.table = table.data(),
                      .table_stride = 8,
                      .vocabulary = 1,
                      .token_ids = ids.data(),
                      .x = x.data(),
                      .x_stride = 8,
                      .num_rows = 1,
                      .width = 8,
                      .began = began.data()},
                     nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  cuda::launch_signal(
      {.began = began.data(), .host_nanoseconds = taken.data(), .word = word.data(), .batch = 1}, nullptr);
  CHECK(word.values()[0] == 1);
  const std::chrono::nanoseconds whole = std::chrono::steady_clock::now() - start;
  CHECK(taken.values()[0] <= static_cast<std::uint64_t>(whole.count()));
  CHECK(taken.values()[0] > 2'000'000);
}
