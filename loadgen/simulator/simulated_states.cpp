// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/simulated_states.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "loadgen/workload/random_source.hpp"

namespace troupe::loadgen {
namespace {

constexpr double kMiddle = 8, kDeviation = 2.5;  // of the noise, in doublings

}  // namespace

double simulated_hint(const SimulatedStateSettings& settings, const SimulatedPlace& place) {
  RandomSource of_request(settings.seed, RandomStream::kStates, place.request);
  RandomSource of_look(of_request.next(), RandomStream::kStates, place.num_generated);
  const double noise = kMiddle + kDeviation * (of_request.normal() + of_look.normal()) / std::numbers::sqrt2;
  return settings.strength * std::log2(std::max(1U, place.num_left)) + (1 - settings.strength) * noise;
}

// Frequencies from 1 to 5 a doubling: near hints have near states, and far ones unlike ones.
void append_simulated_state(const SimulatedStateSettings& settings, const SimulatedPlace& place,
                            std::vector<float>& states) {
  const double hint = simulated_hint(settings, place);
  for (std::size_t i = 0; i < kSimulatedStateWidth; ++i)
    states.push_back(static_cast<float>(std::sin(hint * (1 + static_cast<double>(i) / 16))));
}

}  // namespace troupe::loadgen
