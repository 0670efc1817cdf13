// SPDX-License-Identifier: Apache-2.0
// Runs the cells of an experiment one after another, each with a fresh server,
// and keeps everything in one directory:
//
//   experiment.toml       what was asked for
//   cells/NNN-NAME/       results.json, requests.jsonl, server.log of each run;
//                         failure.txt instead of results where it failed
//   cells/NNN-NAME-simulated/   the same run in the simulator, if asked for
//   partial/NNN-NAME/     the run during which the user interrupted
//   summary.csv           a line a run, up to date after each
//   report.html           at the end
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "loadgen/experiment/experiment.hpp"

namespace troupe::loadgen {

struct SweepSettings {
  std::filesystem::path file;  // the experiment's
  std::filesystem::path out;
  std::filesystem::path troupe;  // the server's program, {troupe}
  std::filesystem::path root;    // {root}
  // A cost profile of the machine: each run is also simulated with it, where the
  // server is one of ours. Empty: not.
  std::filesystem::path profile;
  bool only_simulates = false;  // no server is started; the profile is that of each worker
  std::string only;             // run this server only; empty: all
  bool resumes = false;         // skip cells that have results
};

struct SweepOutcome {
  std::size_t num_run = 0;
  std::size_t num_skipped = 0;        // had results already
  std::vector<std::string> failures;  // "003-cache-off-4-seed1: the server …"
  bool was_interrupted = false;
};

// A server that fails costs its cell, not the sweep. Throws std::runtime_error
// before anything runs: unknown server in `only`, an output directory with
// another sweep in it, no program to start.
SweepOutcome run_sweep(const Experiment& experiment, const SweepSettings& settings, std::FILE* progress);

// argv with its placeholders filled in, but {port}.
std::vector<std::string> server_arguments(const ServerConfiguration& server, const SweepSettings& settings);

}  // namespace troupe::loadgen
