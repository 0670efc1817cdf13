// SPDX-License-Identifier: Apache-2.0
// How prompts of several flows share a batch.
#include "policy/forming/batch_former.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

namespace troupe {
namespace {

constexpr std::uint32_t kPlenty = 100'000;

struct Prompt {
  std::uint64_t flow = 0;
  std::uint32_t num_tokens = 0;
};

// Tokens that each prompt gets.
std::vector<std::uint32_t> shares_of(const std::vector<Prompt>& prompts, const BatchLimits& limits) {
  std::deque<SequenceProgress> sequences;
  std::vector<BatchCandidate> candidates;
  for (const Prompt& prompt : prompts) {
    sequences.emplace_back(prompt.num_tokens, kPlenty);
    candidates.push_back({.progress = &sequences.back(), .page_capacity = kPlenty, .flow = prompt.flow});
  }
  std::vector<std::uint32_t> tokens(prompts.size(), 0);
  for (const BatchShare& share : form_batch(candidates, limits))
    tokens[share.candidate] += share.step.num_tokens;
  return tokens;
}

using Tokens = std::vector<std::uint32_t>;

TEST_CASE("prompt shares: many long prompts of one flow do not hold up another's") {
  const BatchLimits limits{.max_tokens = 512, .max_sequences = 64, .prefill_chunk = 256};
  std::vector<Prompt> prompts(20, {.flow = 1, .num_tokens = 4000});
  prompts.push_back({.flow = 2, .num_tokens = 100});
  Tokens expected(21, 0);
  expected[0] = 256;
  expected[1] = 156;
  expected[20] = 100;
  CHECK(shares_of(prompts, limits) == expected);
}

TEST_CASE("prompt shares: flows that all want more get the same") {
  const BatchLimits limits{.max_tokens = 90, .max_sequences = 64, .prefill_chunk = 90};
  CHECK(shares_of({{1, 500}, {1, 500}, {2, 500}, {3, 500}}, limits) == Tokens{30, 0, 30, 30});
}

TEST_CASE("prompt shares: what a small flow leaves is shared by the others") {
  const BatchLimits limits{.max_tokens = 90, .max_sequences = 64, .prefill_chunk = 90};
  CHECK(shares_of({{1, 500}, {2, 10}, {3, 500}}, limits) == Tokens{40, 10, 40});
}

TEST_CASE("prompt shares: within a flow prompts go in order of arrival") {
  const BatchLimits limits{.max_tokens = 40, .max_sequences = 64, .prefill_chunk = 15};
  CHECK(shares_of({{1, 500}, {2, 500}, {1, 500}, {2, 500}}, limits) == Tokens{15, 15, 5, 5});
}

// What a flow's prompts could take of a batch that they had for themselves.
std::map<std::uint64_t, std::uint32_t> wanted(const std::vector<Prompt>& prompts, const BatchLimits& limits) {
  std::map<std::uint64_t, std::uint32_t> tokens;
  for (const Prompt& prompt : prompts)
    tokens[prompt.flow] += std::min(prompt.num_tokens, limits.prefill_chunk);
  return tokens;
}

TEST_CASE("prompt shares: no token is left over, and no flow has more than another that wants more") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::uint64_t num_flows = 1 + random() % 5;
    std::vector<Prompt> prompts;
    for (std::size_t i = 0, end = 1 + random() % 12; i < end; ++i)
      prompts.push_back(
          {.flow = random() % num_flows, .num_tokens = static_cast<std::uint32_t>(2 + random() % 60)});
    const BatchLimits limits{.max_tokens = static_cast<std::uint32_t>(1 + random() % 120),
                             .max_sequences = 64,
                             .prefill_chunk = static_cast<std::uint32_t>(1 + random() % 50)};
    const Tokens tokens = shares_of(prompts, limits);
    std::map<std::uint64_t, std::uint32_t> given;
    std::uint32_t num_given = 0, num_wanted = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      REQUIRE(tokens[i] <= std::min(prompts[i].num_tokens, limits.prefill_chunk));
      given[prompts[i].flow] += tokens[i];
      num_given += tokens[i];
    }
    const auto wants = wanted(prompts, limits);
    for (const auto& [flow, num_tokens] : wants) num_wanted += num_tokens;
    REQUIRE(num_given == std::min(limits.max_tokens, num_wanted));
    for (const auto& [flow, num_tokens] : given)
      for (const auto& [other, num_others] : given)
        if (num_others > num_tokens + 1) REQUIRE(num_tokens == wants.at(flow));
  }
}

}  // namespace
}  // namespace troupe
