// SPDX-License-Identifier: Apache-2.0
#include "engine/token_counts.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace troupe;

TEST_CASE("token counts: the prompt's tokens are there from the beginning, others as they come") {
  const std::vector<std::int32_t> prompt{2, 5, 9};
  TokenCounts counts(prompt);
  CHECK(counts.tokens() == std::vector<PenalizedToken>{{2, 0}, {5, 0}, {9, 0}});
  for (const std::int32_t token : {5, 7, 5, 1, 7}) counts.add(token);
  CHECK(counts.tokens() == std::vector<PenalizedToken>{{2, 0}, {5, 2}, {9, 0}, {7, 2}, {1, 1}});
}

TEST_CASE("token counts: without a prompt they count what is generated") {
  TokenCounts counts({});
  CHECK(counts.tokens().empty());
  std::map<std::int32_t, std::uint32_t> expected;
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto token = static_cast<std::int32_t>(random() % 50);
    counts.add(token);
    expected[token] += 1;
  }
  CHECK(counts.tokens().size() == expected.size());
  for (const PenalizedToken& token : counts.tokens()) CHECK(token.num_generated == expected.at(token.id));
}
