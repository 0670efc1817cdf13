// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/request_record.hpp"

#include <array>

namespace troupe::loadgen {
namespace {

constexpr std::array<std::string_view, kNumOutcomes> kNames = {
    "completed", "refused", "rejected", "unreachable", "timed_out", "broken", "unfinished", "cancelled"};

}  // namespace

std::string_view outcome_name(Outcome outcome) { return kNames[static_cast<std::size_t>(outcome)]; }

std::optional<Outcome> outcome_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Outcome>(i);
  }
  return std::nullopt;
}

}  // namespace troupe::loadgen
