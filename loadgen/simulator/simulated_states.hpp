// SPDX-License-Identifier: Apache-2.0
// States of a served model that is not there, for heads that learn lengths from them
// (policy/lengths/state_head.hpp): a simulated device knows how many tokens an answer will still have, and
// its states tell that with noise, as a middle layer's do. They are nothing else of a state.
//
// A state encodes one number, its hint:
//
//   strength · log2(tokens to come) + (1 - strength) · noise
//
// The noise is normal, about 8 and of deviation 2.5: as logarithms of chats' answers are. Half of its
// variance is the request's, as looks at one answer see much the same, and half the look's. So at strength 1
// the length is known, at 0.9 to a factor of 1.2 in the deviation, at 0.8 of 1.5, at 0.5 of 5.7, and at 0 the
// states are noise. No single element of a state has the hint: they are sines of it.
//
// Equal arguments give equal states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::loadgen {

inline constexpr std::size_t kSimulatedStateWidth = 64;

struct SimulatedStateSettings {
  double strength = 0;  // from 0 to 1
  std::uint64_t seed = 1;
};

// An answer at the state's token.
struct SimulatedPlace {
  std::uint64_t request = 0;
  std::uint32_t num_generated = 0;  // tokens
  std::uint32_t num_left = 1;       // tokens to come, >= 1
};

double simulated_hint(const SimulatedStateSettings& settings, const SimulatedPlace& place);

// Appends the kSimulatedStateWidth elements of the state.
void append_simulated_state(const SimulatedStateSettings& settings, const SimulatedPlace& place,
                            std::vector<float>& states);

}  // namespace troupe::loadgen
