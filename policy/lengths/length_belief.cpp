// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_belief.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace troupe {
namespace {

constexpr double kLeastShare = 1e-9;  // nothing is impossible
constexpr double kLeastRest = 1e-6;   // less is made of such shares only

double begin_of(std::size_t bin) { return first_length(bin); }

}  // namespace

LengthBelief::LengthBelief(const Shares& shares) {
  for (std::size_t bin = 0; bin < kNumLengthBins; ++bin) shares_[bin] = std::max(shares[bin], kLeastShare);
  const double sum = std::accumulate(shares_.begin(), shares_.end(), 0.0);
  for (double& share : shares_) share /= sum;
}

std::uint32_t LengthBelief::quantile(double rank) const {
  double below = 0;
  for (std::size_t bin = 0; bin + 1 < kNumLengthBins; ++bin) {
    if (below + shares_[bin] >= rank) {
      const double place = std::clamp((rank - below) / shares_[bin], 0.0, 1.0);
      const double width = begin_of(bin + 1) - begin_of(bin);
      return first_length(bin) + static_cast<std::uint32_t>(std::floor(place * (width - 1) + 0.5));
    }
    below += shares_[bin];
  }
  return std::numeric_limits<std::uint32_t>::max();
}

LengthBelief LengthBelief::behind(std::uint32_t num_tokens) const {
  Shares rest = {};
  double below = share_below(begin_of(0) + num_tokens);
  for (std::size_t bin = 0; bin < kNumLengthBins; ++bin) {
    const bool is_last = bin + 1 == kNumLengthBins;
    const double next = is_last ? 1.0 : share_below(begin_of(bin + 1) + num_tokens);
    rest[bin] = std::max(0.0, next - below);
    below = next;
  }
  const double sum = std::accumulate(rest.begin(), rest.end(), 0.0);
  for (double& share : rest) share = sum > kLeastRest ? share / sum : 1.0;
  return LengthBelief(rest);
}

LengthBelief LengthBelief::pooled(const LengthBelief& other) const {
  Shares both = {};
  for (std::size_t bin = 0; bin < kNumLengthBins; ++bin)
    both[bin] = std::sqrt(shares_[bin] * other.shares_[bin]);
  return LengthBelief(both);
}

// The share of answers that are shorter.
double LengthBelief::share_below(double length) const {
  double below = 0;
  for (std::size_t bin = 0; bin < kNumLengthBins; ++bin) {
    if (length < begin_of(bin + 1))
      return below +
             shares_[bin] * std::max(0.0, length - begin_of(bin)) / (begin_of(bin + 1) - begin_of(bin));
    below += shares_[bin];
  }
  return below;
}

}  // namespace troupe
