// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/yielding.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace troupe {
namespace {

using HeldByFlow = std::map<std::uint64_t, std::uint64_t>;

HeldByFlow count_held(std::span<const Holding> running) {
  HeldByFlow held;
  for (const Holding& holding : running) held[holding.flow] += holding.num_held;
  return held;
}

// Of those that may yield, the first in the order that the header names.
template <class MayYield>
std::optional<std::size_t> choose(std::span<const Holding> running, const HeldByFlow& held,
                                  MayYield may_yield) {
  const auto rank = [&](const Holding& holding) {
    return std::tuple(held.at(holding.flow), holding.served, holding.flow, holding.arrival);
  };
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (running[i].num_progressed < kLeastProgress || !may_yield(running[i])) continue;
    if (!chosen || rank(running[i]) > rank(running[*chosen])) chosen = i;
  }
  return chosen;
}

}  // namespace

std::optional<std::size_t> choose_yielding(std::span<const Holding> running, const Claim& claim) {
  if (claim.num_flows < 2) return std::nullopt;
  const HeldByFlow held = count_held(running);
  const std::uint64_t share = std::max(1U, claim.capacity / claim.num_flows);
  const auto own = held.find(claim.flow);
  const std::uint64_t num_own = own == held.end() ? 0 : own->second;
  const bool is_within_share = num_own + claim.num_needed <= share;
  if (!is_within_share) return std::nullopt;
  const bool is_any_above = std::any_of(held.begin(), held.end(), [&](const auto& entry) {
    return entry.first != claim.flow && entry.second > share;
  });
  if (is_any_above)
    return choose(running, held, [&](const Holding& holding) {
      return holding.flow != claim.flow && held.at(holding.flow) > share;
    });
  if (claim.capacity >= claim.num_flows) return std::nullopt;
  return choose(running, held, [&](const Holding& holding) {
    return holding.flow != claim.flow && holding.served >= claim.served + kTurn;
  });
}

}  // namespace troupe
