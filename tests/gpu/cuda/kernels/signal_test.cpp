// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/kernels/signal.hpp"

#include <doctest/doctest.h>

#include <numeric>

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
