// SPDX-License-Identifier: Apache-2.0
#include "bench/server/stream_steps.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace troupe::bench {
namespace {

// Tokens of a stream that joins so many steps late, one every 10 ms.
StreamTokens joins_late(std::uint32_t late, std::uint32_t num_tokens) {
  StreamTokens tokens;
  for (std::uint32_t i = 1; i <= num_tokens; ++i)
    tokens.push_back(
        {.time = std::chrono::steady_clock::time_point() + std::chrono::milliseconds(10 * (late + i)),
         .num_tokens = i});
  return tokens;
}

}  // namespace

TEST_CASE("stream steps: streams that join late do not shorten the iteration") {
  for (const std::uint32_t late : {0U, 1U, 3U, 20U}) {
    const std::vector<StreamTokens> streams = {joins_late(late, 48), joins_late(0, 48),
                                               joins_late(late / 2, 48)};
    CHECK(seconds_per_step(streams) == doctest::Approx(0.010));
  }
}

TEST_CASE("stream steps: tokens that come together count one by one") {
  auto tokens = joins_late(0, 48);
  tokens.erase(tokens.begin() + 10, tokens.begin() + 20);
  CHECK(seconds_per_step(std::vector<StreamTokens>{tokens}) == doctest::Approx(0.010));
}

TEST_CASE("stream steps: streams that never run together have no step") {
  CHECK(std::isnan(seconds_per_step(std::vector<StreamTokens>{joins_late(0, 5), joins_late(8, 5)})));
  CHECK(std::isnan(seconds_per_step(std::vector<StreamTokens>{joins_late(0, 1)})));
}

}  // namespace troupe::bench
