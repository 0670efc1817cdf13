// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_bins.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace troupe {
namespace {

using Beginnings = std::array<std::uint32_t, kNumLengthBins + 1>;

const Beginnings& beginnings() {
  static const Beginnings all = [] {
    Beginnings beginnings = {1, 2, 3};
    for (std::size_t bin = 3; bin < beginnings.size(); ++bin)
      beginnings[bin] = static_cast<std::uint32_t>(std::ceil(std::exp2((static_cast<double>(bin) + 1) / 2)));
    return beginnings;
  }();
  return all;
}

}  // namespace

std::uint32_t first_length(std::size_t bin) { return beginnings()[bin]; }

std::size_t length_bin(std::uint32_t num_tokens) {
  const auto& all = beginnings();
  const auto behind = std::upper_bound(all.begin(), all.end() - 1, std::max(1U, num_tokens));
  return static_cast<std::size_t>(behind - all.begin()) - 1;
}

}  // namespace troupe
