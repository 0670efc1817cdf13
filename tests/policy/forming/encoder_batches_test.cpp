// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/encoder_batches.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace troupe;

namespace {

using Lengths = std::vector<std::uint32_t>;

bool is_allowed(const Lengths& batch, const EncoderBatchLimits& limits) {
  if (batch.size() == 1) return true;
  const std::uint32_t longest = *std::max_element(batch.begin(), batch.end());
  return batch.size() <= limits.max_texts && batch.size() * longest <= limits.max_tokens;
}

// Over all partitions into sets, of neighbours or not.
double least_of_all(const Lengths& lengths, const EncoderBatchLimits& limits, const EncoderBatchCost& cost) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<Lengths> batches;
  const std::function<void(std::size_t)> place = [&](std::size_t text) {
    if (text == lengths.size()) {
      double total = 0;
      for (const Lengths& batch : batches) {
        if (!is_allowed(batch, limits)) return;
        total +=
            cost(*std::max_element(batch.begin(), batch.end()), static_cast<std::uint32_t>(batch.size()));
      }
      least = std::min(least, total);
      return;
    }
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
      batches[batch].push_back(lengths[text]);
      place(text + 1);
      batches[batch].pop_back();
    }
    batches.push_back({lengths[text]});
    place(text + 1);
    batches.pop_back();
  };
  place(0);
  return least;
}

}  // namespace

TEST_CASE("encoder batches: no partition of the texts takes less time than the one planned") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Lengths lengths(1 + random() % 7);
    for (auto& length : lengths) length = 1 + static_cast<std::uint32_t>(random() % 40);
    std::sort(lengths.begin(), lengths.end());
    const EncoderBatchLimits limits{.max_texts = 1 + static_cast<std::uint32_t>(random() % 6),
                                    .max_tokens = 20 + static_cast<std::uint32_t>(random() % 150)};
    // Any cost that does not shrink with the length: whatever it is by number.
    std::vector<double> fixed(9), each(9);
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      fixed[i] = static_cast<double>(random() % 100);
      each[i] = static_cast<double>(random() % 10);
    }
    const EncoderBatchCost cost = [&](std::uint32_t length, std::uint32_t num_texts) {
      return fixed[num_texts] + each[num_texts] * length;
    };
    const auto sizes = plan_encoder_batches(lengths, limits, cost);
    CHECK(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) == lengths.size());
    double total = 0;
    std::size_t end = 0;
    for (const std::uint32_t size : sizes) {
      const Lengths batch(lengths.begin() + static_cast<std::ptrdiff_t>(end),
                          lengths.begin() + static_cast<std::ptrdiff_t>(end + size));
      CHECK(is_allowed(batch, limits));
      end += size;
      total += cost(lengths[end - 1], size);
    }
    CHECK(total == doctest::Approx(least_of_all(lengths, limits, cost)));
  }
}

TEST_CASE("encoder batches: five texts are three batches where padding costs more than a batch") {
  const EncoderBatchCost cost = [](std::uint32_t length, std::uint32_t num_texts) {
    return 20.0 + length * num_texts;
  };
  const EncoderBatchLimits limits{.max_texts = 20, .max_tokens = 1000};
  CHECK(plan_encoder_batches(Lengths{17, 18, 52, 63, 77}, limits, cost) ==
        std::vector<std::uint32_t>{2, 2, 1});
  CHECK(plan_encoder_batches(Lengths{}, limits, cost).empty());
  // The first and the last text are planned, too.
  CHECK(plan_encoder_batches(Lengths{5}, limits, cost) == std::vector<std::uint32_t>{1});
}

TEST_CASE("encoder batches: a text that is longer than a batch may be goes alone") {
  const EncoderBatchCost cost = [](std::uint32_t, std::uint32_t) { return 1.0; };
  CHECK(plan_encoder_batches(Lengths{5, 5, 90}, {.max_texts = 8, .max_tokens = 10}, cost) ==
        std::vector<std::uint32_t>{2, 1});
}

TEST_CASE("encoder batches: a batch has room for as many tokens as it computes") {
  const EncoderBatchLimits limits{.max_texts = 3, .max_tokens = 20};
  EncoderBatch ragged(EncoderBatching::kRagged, limits);
  CHECK(ragged.has_room(100));
  ragged.add(2);
  ragged.add(10);
  CHECK(ragged.num_computed() == 12);
  CHECK(ragged.has_room(8));
  CHECK_FALSE(ragged.has_room(9));
  ragged.add(1);
  CHECK_FALSE(ragged.has_room(1));  // it has three

  EncoderBatch padded(EncoderBatching::kPadded, limits);
  padded.add(2);
  CHECK(padded.has_room(10));
  CHECK_FALSE(padded.has_room(11));
  padded.add(10);
  CHECK(padded.num_computed() == 20);
  CHECK_FALSE(padded.has_room(1));

  EncoderBatch none(EncoderBatching::kNone, limits);
  none.add(2);
  CHECK(none.num_computed() == 2);
  CHECK_FALSE(none.has_room(1));
}
