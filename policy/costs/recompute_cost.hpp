// SPDX-License-Identifier: Apache-2.0
// Cost of computing the KV of a page again: a part that is the same
// everywhere, and attention, which grows with the tokens in front of it
// (Pensieve, §3.4.1, eq. 3.6). Attention is measured at contexts that are powers
// of two and interpolated between them.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

struct RecomputeCost {
  double constant = 1.0;  // any unit, the same for all; > 0
  // attention[i]: at a context of 2^i pages; never negative. Beyond the last it
  // grows on in a straight line. Empty: none.
  std::vector<double> attention;

  // depth: pages in front of the page.
  double of_page(std::uint32_t depth) const;
};

}  // namespace troupe
