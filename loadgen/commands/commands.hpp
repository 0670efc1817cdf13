// SPDX-License-Identifier: Apache-2.0
// The subcommands of troupe-loadgen, each in a source of its own: they take the arguments behind their
// names and give the exit status (command_table.hpp).
#pragma once

#include <string>
#include <vector>

namespace troupe::loadgen {

// `troupe-loadgen run`: one run against a live server. kTooManyErrors if more
// requests failed than allowed, kServerUnreachable if the server is not there
// or went away.
int run_command(const std::vector<std::string>& arguments);

// `troupe-loadgen plan`: shows what a workload is going to send, and saves it
// as a plan file that can be sent again exactly. Needs no server.
int plan_command(const std::vector<std::string>& arguments);

// `troupe-loadgen simulate`: a run on simulated workers, or with --find-workers
// the fewest workers that keep an objective at given rates. kTooManyErrors if
// no number of workers does.
int simulate_command(const std::vector<std::string>& arguments);

// `troupe-loadgen sweep EXPERIMENT.toml`: all runs of an experiment and its
// report. kTooManyErrors if a run failed or was interrupted.
int sweep_command(const std::vector<std::string>& arguments);

// `troupe-loadgen report DIR... [--out FILE] [--title TEXT]`: one HTML page of
// stored runs or sweeps, overlaid where there are several directories.
int report_command(const std::vector<std::string>& arguments);

// `troupe-loadgen profile`: completes a profile of `troupe profile` with what a
// live server and this client add to it.
int profile_command(const std::vector<std::string>& arguments);

// `troupe-loadgen calibrate`: the highest load at which this generator is still
// honest on this machine (calibration.hpp).
int calibrate_command(const std::vector<std::string>& arguments);

}  // namespace troupe::loadgen
