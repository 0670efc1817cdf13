// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "loadgen/client/calibration.hpp"
#include "loadgen/commands/command_table.hpp"
#include "loadgen/commands/commands.hpp"
#include "loadgen/commands/flag_parsing.hpp"

namespace troupe::loadgen {
namespace {

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

void print_step(const CalibrationStep& step) {
  std::printf("%10.0f  %9.0f  %12.0f  %12.0f  %12.0f  %s\n", step.requests_per_second, step.chunks_per_second,
              microseconds(step.start_delay_p99), microseconds(step.chunk_delay_p50),
              microseconds(step.chunk_delay_p99), step.is_honest ? "yes" : "no");
  std::fflush(stdout);
}

}  // namespace

int calibrate_command(const std::vector<std::string>& arguments) {
  bool is_short = false;
  CLI::App app("The highest load at which this generator is still honest on this machine",
               "troupe-loadgen calibrate");
  app.add_flag("--short", is_short, "as at the begin of each run: coarser steps, a few seconds");
  if (const auto status = parse_flags(app, arguments)) return *status;
  std::puts(
      "requests/s   chunks/s  begun late,   chunk, p50,   chunk, p99,  honest\n"
      "                         p99 (us)       (us)          (us)        ");
  const auto result = calibrate(is_short ? CalibrationEffort::kShort : CalibrationEffort::kFull, print_step);
  std::printf("honest: %s (99 of 100 requests begun, and chunks stamped, within 1 ms)\n",
              calibration_text(result).c_str());
  return kSuccess;
}

}  // namespace troupe::loadgen
