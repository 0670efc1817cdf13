// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/live_overheads.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "loadgen/simulator/simulator.hpp"
#include "tests/loadgen/simulator/simulated_traffic.hpp"

using namespace troupe;
using namespace troupe::loadgen;

namespace {

// As a live server with these overheads would have answered.
CalibrationRun run_with(const ServingOverheads& overheads, std::uint32_t num_users) {
  CostProfile profile = plain_profile();
  profile.overheads = overheads;
  std::vector<PlannedConversation> conversations;
  for (std::uint32_t i = 0; i < num_users * 8; ++i)
    conversations.push_back(lone_request({}, 8 * (1 + i % 4), 24));
  ListedConversations source(conversations);
  return {.num_users = num_users,
          .result = simulate(profile, source, {RequestClass{}}, {.num_users = num_users}).result};
}

}  // namespace

TEST_CASE("live overheads: those that were there are found") {
  const ServingOverheads overheads{.request = 300'000,
                                   .per_prompt_token = 2'000,
                                   .turnaround = 0,
                                   .iteration = 50'000,
                                   .iteration_per_sequence = 9'000,
                                   .end = 40'000};
  const std::vector<CalibrationRun> runs = {run_with(overheads, 1), run_with(overheads, 4),
                                            run_with(overheads, 8)};
  const auto found = fit_overheads(plain_profile(), runs);
  CHECK(found.request == doctest::Approx(300'000).epsilon(0.02));
  CHECK(found.per_prompt_token == doctest::Approx(2'000).epsilon(0.05));
  CHECK(found.iteration == doctest::Approx(50'000).epsilon(0.05));
  CHECK(found.iteration_per_sequence == doctest::Approx(9'000).epsilon(0.05));
  CHECK(found.end == doctest::Approx(40'000));
}

TEST_CASE("live overheads: a server faster than its profile gets none, and none below zero") {
  const std::vector<CalibrationRun> runs = {run_with({}, 1), run_with({}, 8)};
  CostProfile slower = plain_profile();
  slower.iteration.fixed *= 1.5;
  const auto found = fit_overheads(slower, runs);
  CHECK(found.request == 0);
  CHECK(found.iteration == 0);
  CHECK(found.iteration_per_sequence == 0);
}

TEST_CASE("live overheads: runs that tell nothing are refused") {
  const std::vector<CalibrationRun> crowd = {run_with({}, 4)};
  CHECK_THROWS_WITH_AS(fit_overheads(plain_profile(), crowd),
                       "overheads: expected a run with one user, got none", std::runtime_error);
  std::vector<CalibrationRun> failed = {run_with({}, 1)};
  for (auto& record : failed[0].result.records) record.outcome = Outcome::kBroken;
  CHECK_THROWS_WITH_AS(fit_overheads(plain_profile(), failed),
                       "overheads: expected completed requests of several tokens with 1 users, got none",
                       std::runtime_error);
}
