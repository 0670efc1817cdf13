// SPDX-License-Identifier: Apache-2.0
// Deterministic simulation of the whole engine. TROUPE_SIM_SEED=n runs the one
// scenario of that seed and says what it was, TROUPE_SIM_SEEDS=n runs so many, from
// TROUPE_SIM_FIRST_SEED on. By hand: TROUPE_SIM_SEEDS=100000, some 15 minutes.
#include "tests/simulation/scenario.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "telemetry/log.hpp"
#include "tests/support/sanitizers.hpp"

namespace troupe::sim {
namespace {

constexpr std::uint64_t kSeedsInEveryRun = 2100;

std::optional<std::uint64_t> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

void check_seed(std::uint64_t seed, std::map<std::string, ScenarioResult>& totals) {
  const ScenarioResult result = run_scenario(seed);
  std::string violations;
  for (const auto& violation : result.violations) violations += "  " + violation + "\n";
  CHECK_MESSAGE(result.violations.empty(), "replay with TROUPE_SIM_SEED=", seed, " test_simulation (",
                result.name, ")\n", violations);
  ScenarioResult& total = totals[result.name];
  total.num_steps += result.num_steps;
  total.num_requests += result.num_requests;
  total.num_devices += result.num_devices;
  total.num_workers = std::max(total.num_workers, result.num_workers);
  total.num_moved += result.num_moved;
  total.num_preemptions += result.num_preemptions;
  total.num_written += result.num_written;
  total.num_read += result.num_read;
  total.num_masks_in_time += result.num_masks_in_time;
  total.num_masks_late += result.num_masks_late;
  total.num_copies_within += result.num_copies_within;
  total.num_left_in_load += result.num_left_in_load;
  total.num_left_in_store += result.num_left_in_store;
  total.num_left_in_read += result.num_left_in_read;
  total.num_inputs += result.num_inputs;
  total.num_vectors += result.num_vectors;
  total.num_died_beside_full += result.num_died_beside_full;
  total.num_first_answers += result.num_first_answers;
  total.num_second_answers += result.num_second_answers;
  total.num_called_answers += result.num_called_answers;
}

// Sequences did go on at other workers.
void check_workers(const std::map<std::string, ScenarioResult>& totals) {
  for (const auto& [name, total] : totals) CHECK(total.num_workers == 3);
  CHECK(totals.at("worker death").num_moved > 0);
  CHECK(totals.at("starvation").num_moved > 0);
}

// Inputs were encoded beside chats in every scenario, and workers died meanwhile.
void check_encoders(const std::map<std::string, ScenarioResult>& totals) {
  for (const auto& [name, total] : totals) CHECK(total.num_vectors > total.num_inputs / 10);
  CHECK(totals.at("worker death").num_died_beside_full > 0);
  CHECK(totals.at("poison").num_died_beside_full > 0);
}

// Two chat models answered side by side in every scenario.
void check_second_chats(const std::map<std::string, ScenarioResult>& totals) {
  for (const auto& [name, total] : totals) {
    CHECK(total.num_first_answers > total.num_requests / 40);
    CHECK(total.num_second_answers > total.num_requests / 40);
  }
}

// Batches did await masks in every scenario, and drew without some.
void check_masks(const std::map<std::string, ScenarioResult>& totals) {
  for (const auto& [name, total] : totals) {
    CHECK(total.num_masks_in_time > 0);
    CHECK(total.num_masks_late > 0);
  }
}

// Answers called tools in every scenario.
void check_calls(const std::map<std::string, ScenarioResult>& totals) {
  for (const auto& [name, total] : totals) CHECK(total.num_called_answers > 0);
}

// Clients did vanish while pages were on their way.
void check_departures(const ScenarioResult& returning) {
  CHECK(returning.num_copies_within > 0);
  CHECK(returning.num_left_in_load > 0);
  CHECK(returning.num_left_in_store > 0);
  CHECK(returning.num_left_in_read > 0);
}

TEST_CASE("simulation: every invariant holds, whatever the seed") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  std::map<std::string, ScenarioResult> totals;
  if (const auto seed = number_from("TROUPE_SIM_SEED")) {
    configure_logging(LogLevel::kInfo, LogFormat::kText);
    check_seed(*seed, totals);
  } else {
    const std::uint64_t num_seeds =
        number_from("TROUPE_SIM_SEEDS").value_or(test::fewer_if_sanitized(kSeedsInEveryRun, 8));
    const std::uint64_t first = number_from("TROUPE_SIM_FIRST_SEED").value_or(0);
    for (std::uint64_t seed = first; seed < first + num_seeds; ++seed) check_seed(seed, totals);
    if (num_seeds >= kSeedsInEveryRun) {
      check_departures(totals["returning"]);
      check_workers(totals);
      check_encoders(totals);
      check_second_chats(totals);
      check_masks(totals);
      check_calls(totals);
    }
  }
  for (const auto& [name, total] : totals)
    MESSAGE(name, ": ", total.num_requests, " requests, ", total.num_devices, " devices, ", total.num_moved,
            " moved, ", total.num_preemptions, " preemptions, ", total.num_written, " pages written, ",
            total.num_read, " read, ", total.num_masks_in_time, " masks in time, ", total.num_masks_late,
            " late, ", total.num_copies_within, " copied in part, ", total.num_left_in_load, ", ",
            total.num_left_in_store, " and ", total.num_left_in_read, " left in loads, stores and reads, ",
            total.num_vectors, " of ", total.num_inputs, " vectors, ", total.num_died_beside_full,
            " deaths beside a full worker, ", total.num_first_answers, " and ", total.num_second_answers,
            " answers of two chat models, ", total.num_called_answers, " with calls, ", total.num_steps,
            " messages");
}

// The one of the first 100,000 that did not end: two prompts that can't both be kept took
// turns for ever.
TEST_CASE("simulation: seeds that found something once find nothing") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  std::map<std::string, ScenarioResult> totals;
  check_seed(85'305, totals);
}

TEST_CASE("simulation: the same seed gives the same run, another one another") {
  configure_logging(LogLevel::kOff, LogFormat::kText);
  for (std::uint64_t seed = 1; seed <= 21; ++seed) {
    const auto first = run_scenario(seed);
    CHECK(run_scenario(seed).trace_hash == first.trace_hash);
    CHECK(run_scenario(seed + 1000).trace_hash != first.trace_hash);
  }
}

}  // namespace
}  // namespace troupe::sim
