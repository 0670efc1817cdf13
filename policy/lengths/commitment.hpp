// SPDX-License-Identifier: Apache-2.0
// How many KV pages running sequences will need at once, at the worst moment to come.
// Not the sum of what each needs in the end: those that end early give back before
// those that end late have grown (Past-Future scheduling, ASPLOS 2025).
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

// One sequence's pages. All take a page in so many steps, but each begins its own at
// another step.
struct Commitment {
  std::uint32_t num_held = 0;
  std::uint32_t num_more = 0;  // that it will still take before it ends
};

class Commitments {
 public:
  explicit Commitments(std::vector<Commitment> running);

  // Sorted by num_more, most first, the k-th ends when it has taken num_more; the k that
  // are left then hold the sum of their num_held, k times that, and a page more each that
  // goes on, for it may have begun its next one before. The most of it, which is no less
  // than what will be held and at most a page a sequence more:
  std::uint64_t peak() const;
  std::uint64_t peak_with(const Commitment& newcomer) const;

 private:
  std::vector<Commitment> running_;  // most to come first
};

}  // namespace troupe
