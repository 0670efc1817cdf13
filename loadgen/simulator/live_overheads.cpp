// SPDX-License-Identifier: Apache-2.0
#include "loadgen/simulator/live_overheads.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "loadgen/result/run_replay.hpp"
#include "loadgen/simulator/simulator.hpp"
#include "policy/costs/nonnegative_fit.hpp"

namespace troupe::loadgen {
namespace {

// The overhead of a batch changes who is in the next one; a few rounds settle it.
constexpr int kRounds = 3;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double nanoseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()); }

RunResult simulate_again(const CostProfile& profile, const CalibrationRun& run) {
  ConversationList source(conversations_of(run.result));
  const SimulationSettings settings{.num_users = run.num_users, .records_gaps = false, .sample_interval = {}};
  return simulate(profile, source, run.result.classes, settings).result;
}

double median_time_per_token(const RunResult& result, std::uint32_t num_users) {
  std::vector<double> times;
  for (const RequestRecord& record : result.records)
    if (record.outcome == Outcome::kCompleted && record.output_tokens > 1)
      times.push_back(nanoseconds(record.time_per_output_token()));
  if (times.empty())
    throw std::runtime_error("overheads: expected completed requests of several tokens with " +
                             std::to_string(num_users) + " users, got none");
  return median(times);
}

void fit_iteration(CostProfile& profile, std::span<const CalibrationRun> runs) {
  std::vector<double> a, added(runs.size(), 0.0), measured;
  for (const CalibrationRun& run : runs) {
    a.insert(a.end(), {1.0, static_cast<double>(run.num_users)});
    measured.push_back(median_time_per_token(run.result, run.num_users));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const double simulated = median_time_per_token(simulate_again(profile, runs[i]), runs[i].num_users);
      added[i] = profile.overheads.iteration + profile.overheads.iteration_per_sequence * runs[i].num_users +
                 measured[i] - simulated;
    }
    const auto fitted = fit_nonnegative(a, added, 2);
    profile.overheads.iteration = fitted[0];
    profile.overheads.iteration_per_sequence = fitted[1];
  }
}

// Differences of the times to first token between live and simulated, medians
// by length, so that a slow one among them does not count.
void fit_request(CostProfile& profile, const CalibrationRun& run) {
  std::map<std::uint64_t, RequestRecord::Time> simulated;
  for (const RequestRecord& record : simulate_again(profile, run).records)
    simulated[record.conversation] = record.time_to_first_token();
  std::map<std::uint32_t, std::vector<double>> by_length;
  for (const RequestRecord& record : run.result.records) {
    if (record.outcome != Outcome::kCompleted || !simulated.contains(record.conversation)) continue;
    by_length[record.prompt_tokens].push_back(
        nanoseconds(record.time_to_first_token() - simulated.at(record.conversation)));
  }
  std::vector<double> a, b;
  for (const auto& [length, differences] : by_length) {
    a.insert(a.end(), {1.0, static_cast<double>(length)});
    b.push_back(std::max(0.0, median(differences)));
  }
  const auto fitted = fit_nonnegative(a, b, 2);
  profile.overheads.request = fitted[0];
  profile.overheads.per_prompt_token = fitted[1];
}

double median_end(const RunResult& result) {
  std::vector<double> ends;
  for (const RequestRecord& record : result.records)
    if (record.outcome == Outcome::kCompleted)
      ends.push_back(std::max(0.0, nanoseconds(record.finished - record.last_token)));
  return median(ends);
}

}  // namespace

ServingOverheads fit_overheads(const CostProfile& profile, std::span<const CalibrationRun> runs) {
  const auto alone =
      std::find_if(runs.begin(), runs.end(), [](const CalibrationRun& run) { return run.num_users == 1; });
  if (alone == runs.end()) throw std::runtime_error("overheads: expected a run with one user, got none");
  CostProfile fitted = profile;
  fitted.overheads = {.turnaround = profile.overheads.turnaround};
  fit_iteration(fitted, runs);
  fit_request(fitted, *alone);
  fitted.overheads.end = median_end(alone->result);
  return fitted.overheads;
}

}  // namespace troupe::loadgen
