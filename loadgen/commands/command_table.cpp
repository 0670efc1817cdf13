// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/command_table.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "loadgen/commands/calibrate_command.hpp"
#include "loadgen/commands/plan_command.hpp"
#include "loadgen/commands/profile_command.hpp"
#include "loadgen/commands/report_command.hpp"
#include "loadgen/commands/run_command.hpp"
#include "loadgen/commands/simulate_command.hpp"
#include "loadgen/commands/sweep_command.hpp"
#include "telemetry/nearest_name.hpp"

namespace troupe::loadgen {
namespace {

std::string help_text() {
  std::string text =
      "troupe-loadgen: load experiments against OpenAI-compatible servers\n"
      "\n"
      "usage: troupe-loadgen COMMAND [OPTIONS]     (COMMAND --help says more)\n"
      "       troupe-loadgen --help | --version\n";
  if (!command_table().empty()) text += "\ncommands:\n";
  for (const auto& command : command_table()) {
    std::string line = "  " + std::string(command.name);
    line.resize(std::max<std::size_t>(line.size() + 2, 16), ' ');
    text += line + std::string(command.summary) + "\n";
  }
  return text;
}

int refuse_unknown(const std::string& name) {
  std::vector<std::string> known = {"--help", "--version"};
  for (const auto& command : command_table()) known.emplace_back(command.name);
  const auto nearest = nearest_name(name, known);
  const auto hint = nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
  std::fprintf(stderr, "troupe-loadgen: unknown command '%s'%s\n(troupe-loadgen --help lists all)\n",
               name.c_str(), hint.c_str());
  return kUsageError;
}

}  // namespace

std::span<const Subcommand> command_table() {
  // In the order in which help shows them.
  static const std::vector<Subcommand> table = {
      {"plan", "what a workload is going to send; saves it to be sent again", plan_command},
      {"run", "one run against a live server", run_command},
      {"simulate", "a run on simulated workers, or how many are needed", simulate_command},
      {"sweep", "all runs of an experiment, and its report", run_sweep_command},
      {"report", "one HTML page of stored results; several are overlaid", run_report},
      {"calibrate", "what this generator can do on this machine", calibrate_command},
      {"profile", "what a live server adds to the costs of its device", profile_command},
  };
  return table;
}

int run_command_line(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs(help_text().c_str(), stderr);
    return kUsageError;
  }
  const auto& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(help_text().c_str(), stdout);
    return kSuccess;
  }
  if (name == "--version" || name == "version") {
    std::puts("troupe-loadgen " TROUPE_VERSION);
    return kSuccess;
  }
  const auto table = command_table();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& command) { return command.name == name; });
  if (found == table.end()) return refuse_unknown(name);
  try {
    return found->run({arguments.begin() + 1, arguments.end()});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "troupe-loadgen %s: %s\n", name.c_str(), error.what());
    return kUsageError;
  }
}

}  // namespace troupe::loadgen
