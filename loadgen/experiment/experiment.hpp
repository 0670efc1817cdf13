// SPDX-License-Identifier: Apache-2.0
// One TOML file describes an experiment: server configurations × loads × seeds,
// under one workload. Here it is read and laid out into cells; sweep.hpp runs it.
//
//   [experiment]  name, description, paper, expected, rates or users, seeds (five, if
//                 not named), baseline_again: the first server once more, as the last
//                 one, whose difference from itself shows what the machine does
//   [[server]]    name, and one of: flags (of `troupe serve`), argv, url;
//                 arrivals, if they are to differ from [arrivals]; reset beside url: a path,
//                 posted to before each run, that empties the caches ("/reset_prefix_cache")
//   [run] [workload] [arrivals] [[class]]   as for `troupe-loadgen run`
//
// In flags and argv, {troupe} is the server's program, {root} the directory that
// holds models/, {port} a free port.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/client/run_options.hpp"
#include "loadgen/report/report.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

struct ServerConfiguration {
  std::string name;
  std::vector<std::string> argv;  // with placeholders; empty: `url` runs already
  std::string url;
  std::string reset;  // of `url`: the path that is posted to before each run; empty: none
  std::optional<ArrivalSettings> arrivals;
  bool tells_lengths = false;  // of answers, as RunOptions
};

struct Experiment {
  std::string name;
  std::string description;
  std::string paper;     // the figure or claim that it stands for
  std::string expected;  // the direction in which the result should go
  std::vector<ServerConfiguration> servers;
  std::vector<double> loads;  // conversations a second, or users
  bool is_by_users = false;
  std::vector<std::uint64_t> seeds;
  bool has_baseline_again = false;
  RunOptions options;
  WorkloadSettings workload;
};

// Throws std::runtime_error with file and line: unknown keys (with the nearest
// known one), wrong types, what the workload's check refuses, servers without
// or with equal names.
Experiment read_experiment(const std::filesystem::path& file);

// The head of its report; of the file, only [experiment] is looked at.
ReportText read_report_text(const std::filesystem::path& file);

// One run of the experiment.
struct Cell {
  std::size_t server = 0;  // index
  double load = 0;
  std::uint64_t seed = 0;
  std::string directory;  // "003-cache-off-4-seed1": sorts in the order of the plan
};

// Seed by seed, then load by load, all servers next to each other: what drifts
// in the machine meanwhile meets all of them alike.
std::vector<Cell> cells_of(const Experiment& experiment);

// The experiment's workload at a cell's load.
WorkloadSettings workload_of(const Experiment& experiment, const Cell& cell);

// Letters, digits, '.', '-' and '_' stay, the rest becomes '-'.
std::string file_name_of(const std::string& name);

}  // namespace troupe::loadgen
