// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_belief.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <numeric>

namespace troupe {
namespace {

LengthBelief all_in(std::size_t bin) {
  LengthBelief::Shares shares = {};
  shares[bin] = 1;
  return LengthBelief(shares);
}

double sum_of(const LengthBelief& belief) {
  return std::accumulate(belief.shares().begin(), belief.shares().end(), 0.0);
}

TEST_CASE("length belief: quantiles lie evenly in a bin, and beyond the last one nothing is known") {
  const std::size_t bin = length_bin(64);
  const LengthBelief belief = all_in(bin);
  CHECK(belief.quantile(0.001) == first_length(bin));
  CHECK(belief.quantile(0.999) == first_length(bin + 1) - 1);
  CHECK(belief.quantile(0.5) > first_length(bin));
  CHECK(all_in(kNumLengthBins - 1).quantile(0.5) == std::numeric_limits<std::uint32_t>::max());
}

TEST_CASE("length belief: tokens that have come are no possible ends, and are taken off the rest") {
  LengthBelief::Shares shares = {};
  shares[length_bin(10)] = 0.5;
  shares[length_bin(600)] = 0.5;
  const LengthBelief belief(shares);
  CHECK(belief.quantile(0.4) < 20);
  const LengthBelief rest = belief.behind(100);  // it is the long one
  CHECK(rest.quantile(0.01) >= first_length(length_bin(512 - 100)));
  CHECK(rest.quantile(0.99) < first_length(length_bin(724 - 100) + 1));
  CHECK(sum_of(rest) == doctest::Approx(1));
  // Step by step it is about the same as at once.
  LengthBelief steps = belief;
  for (int i = 0; i < 10; ++i) steps = steps.behind(32);
  CHECK(steps.quantile(0.5) == doctest::Approx(belief.behind(320).quantile(0.5)).epsilon(0.15));
}

TEST_CASE("length belief: an answer that is longer than all that was possible may have any length") {
  const LengthBelief rest = all_in(length_bin(8)).behind(5000);
  CHECK(sum_of(rest) == doctest::Approx(1));
  CHECK(rest.shares()[0] == doctest::Approx(1.0 / kNumLengthBins));
}

TEST_CASE("length belief: pooled with itself it stays, with another it lies between") {
  LengthBelief::Shares low = {}, high = {};
  for (std::size_t bin = 0; bin < kNumLengthBins; ++bin) {
    low[bin] = bin < 16 ? 4 : 1;
    high[bin] = bin < 16 ? 1 : 4;
  }
  const LengthBelief a(low), b(high);
  for (std::size_t bin = 0; bin < kNumLengthBins; ++bin)
    CHECK(a.pooled(a).shares()[bin] == doctest::Approx(a.shares()[bin]));
  CHECK(a.pooled(b).quantile(0.5) > a.quantile(0.5));
  CHECK(a.pooled(b).quantile(0.5) < b.quantile(0.5));
  CHECK(sum_of(a.pooled(b)) == doctest::Approx(1));
}

}  // namespace
}  // namespace troupe
