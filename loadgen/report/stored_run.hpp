// SPDX-License-Identifier: Apache-2.0
// Runs as reports take them: with their summary, and sorted into lines (one
// server configuration each) of points (one load each) of runs (one seed each).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "loadgen/result/run_result.hpp"
#include "loadgen/result/summary.hpp"

namespace troupe::loadgen {

struct StoredRun {
  RunResult result;
  Summary summary;
  std::string origin;  // tells directories apart where there are several, else empty
};

// Throws as read_result does.
StoredRun read_run(const std::filesystem::path& directory, const std::string& origin);

// The run in `directory`, or those in the directories below it, by path. Throws
// std::runtime_error: there are none, or one is damaged.
std::vector<StoredRun> read_runs(const std::filesystem::path& directory, const std::string& origin);

struct LoadPoint {
  double load = 0;                     // requests a second, or users
  std::vector<const StoredRun*> runs;  // never empty
};

struct RunLine {
  std::string name;
  std::vector<LoadPoint> points;  // by load
};

struct RunGroups {
  std::vector<RunLine> lines;  // in order of their first run
  bool is_by_users = false;
  bool has_turns = false;  // conversations: the load counts these, not requests

  bool is_sweep() const;  // some line has several points
};

// Points into `runs`, which must stay.
RunGroups group_runs(std::span<const StoredRun> runs);

// A figure over the seeds of one point; runs without it (not a number) do not count. One that
// is infinite makes the mean so.
struct Spread {
  double mean = 0;  // not a number where count is 0
  double low = 0;
  double high = 0;
  std::size_t count = 0;
};

Spread spread_of(const LoadPoint& point, double (*value)(const Measures&));
Spread spread_of(const std::vector<double>& values);

}  // namespace troupe::loadgen
