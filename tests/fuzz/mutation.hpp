// SPDX-License-Identifier: Apache-2.0
// Random changes of a seed, as a fuzzer makes them, for builds without libFuzzer: the same
// seed of the generator makes the same bytes on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::fuzz {

// xorshift*: the distributions of the standard library differ between implementations.
class MutationRandom {
 public:
  explicit MutationRandom(std::uint64_t seed) : state_(seed * 2 + 1) {}

  // Below `bound`, which is at least 1.
  std::size_t below(std::size_t bound);

 private:
  std::uint64_t state_;
};

// `bytes` with one to eight changes: bytes and numbers are replaced, pieces removed, doubled,
// moved, or taken over from `other`. At most kMaxMutatedBytes.
inline constexpr std::size_t kMaxMutatedBytes = 8192;
std::string mutated(std::string bytes, std::string_view other, MutationRandom& random);

}  // namespace troupe::fuzz
