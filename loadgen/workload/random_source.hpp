// SPDX-License-Identifier: Apache-2.0
// The random numbers of load plans and simulations: xoshiro256++ 1.0 (Blackman and Vigna),
// seeded by splitmix64, with our own sampling on top, because those of <random>
// differ between standard libraries. A seed gives the same integers everywhere;
// values that pass through log and the like are the same to the last bit only
// with the same C library.
#pragma once

#include <array>
#include <cstdint>

namespace troupe::loadgen {

// Each kind of draw has a stream of its own, so that changing one distribution
// leaves the draws of all others alone.
enum class RandomStream : std::uint64_t {
  kArrivals = 1,
  kClass,
  kPromptTokens,
  kOutputTokens,
  kNumTurns,
  kThinkTime,
  kPrefix,
  kQuestion,
  kPause,
  kUniqueText,
  kPrefixText,
  kCancelled,
  kStalled,
  kResiduals,
  kLosses,
  kTrees,
  kStates,
};

// Two rounds of splitmix64's finalizer: equal inputs give equal numbers,
// different ones unrelated numbers.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

class RandomSource {
 public:
  explicit RandomSource(std::uint64_t seed);
  // The numbers of one stream, and in it of one conversation (or prefix, …).
  RandomSource(std::uint64_t seed, RandomStream stream, std::uint64_t index = 0);

  std::uint64_t next();
  double uniform();                          // [0, 1), 53 bits
  std::uint64_t below(std::uint64_t limit);  // [0, limit), each equally likely; limit > 0
  double exponential();                      // mean 1
  double normal();                           // mean 0, standard deviation 1
  double gamma(double shape);                // scale 1; shape > 0

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace troupe::loadgen
