// SPDX-License-Identifier: Apache-2.0
#include "policy/batch_former.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace troupe {
namespace {

SequenceProgress prefilling(std::uint32_t prompt) { return {prompt, prompt + 100}; }

SequenceProgress decoding(std::uint32_t length) {
  SequenceProgress progress(length, length + 100);
  progress.start(length - 1);
  return progress;
}

std::vector<BatchCandidate> candidates(const std::vector<SequenceProgress>& sequences) {
  std::vector<BatchCandidate> result;
  for (const auto& sequence : sequences)
    result.push_back({.progress = &sequence, .page_capacity = 1000});
  return result;
}

constexpr BatchLimits kLimits{.max_tokens = 10, .max_sequences = 4, .prefill_chunk = 6};

TEST_CASE("batch: who decodes comes first, prompts share what is left by arrival") {
  const std::vector sequences{prefilling(20), decoding(5), prefilling(20), decoding(7)};
  const auto shares = form_batch(candidates(sequences), kLimits);
  REQUIRE(shares.size() == 4);
  CHECK(shares[0].step.num_tokens == 6);
  CHECK(shares[1].step.num_tokens == 1);
  CHECK(shares[2].step.num_tokens == 2);
  CHECK(shares[3].step.num_tokens == 1);
}

TEST_CASE("batch: no more sequences than the limit") {
  const std::vector<SequenceProgress> sequences(9, decoding(3));
  CHECK(form_batch(candidates(sequences), kLimits).size() == 4);
}

TEST_CASE("batch: nobody, or nobody with pages, gives no batch") {
  CHECK(form_batch({}, kLimits).empty());
  const auto waiting = decoding(5);
  const BatchCandidate candidate{.progress = &waiting, .page_capacity = 4};
  CHECK(form_batch({&candidate, 1}, kLimits).empty());
}

TEST_CASE("batch: random candidates, within every limit and never wasting budget") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<SequenceProgress> sequences;
    for (std::uint64_t i = random() % 12; i > 0; --i)
      sequences.push_back(random() % 2 ? prefilling(2 + static_cast<std::uint32_t>(random() % 30))
                                       : decoding(2 + static_cast<std::uint32_t>(random() % 30)));
    const BatchLimits limits{.max_tokens = 1 + static_cast<std::uint32_t>(random() % 40),
                             .max_sequences = 1 + static_cast<std::uint32_t>(random() % 12),
                             .prefill_chunk = 1 + static_cast<std::uint32_t>(random() % 20)};
    const auto all = candidates(sequences);
    const auto shares = form_batch(all, limits);
    std::uint32_t num_tokens = 0;
    std::size_t num_decoding = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      num_tokens += shares[i].step.num_tokens;
      if (i > 0) REQUIRE(shares[i - 1].candidate < shares[i].candidate);
      if (all[shares[i].candidate].progress->is_prefilling()) {
        REQUIRE(shares[i].step.num_tokens <= limits.prefill_chunk);
      } else {
        num_decoding += 1;
      }
    }
    REQUIRE(num_tokens <= limits.max_tokens);
    REQUIRE(shares.size() <= limits.max_sequences);
    std::size_t able = 0;
    for (const auto& sequence : sequences) able += sequence.is_prefilling() ? 0 : 1;
    REQUIRE(num_decoding ==
            std::min({able, std::size_t{limits.max_tokens}, std::size_t{limits.max_sequences}}));
    const bool is_full = num_tokens == limits.max_tokens || shares.size() == limits.max_sequences ||
                         shares.size() == sequences.size();
    REQUIRE(is_full);
  }
}

}  // namespace
}  // namespace troupe
