// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/command_table.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <stdexcept>

#include "loadgen/commands/commands.hpp"
#include "loadgen/commands/flag_parsing.hpp"
#include "manual/completion.hpp"
#include "manual/man_page.hpp"
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

int run_completion(const std::vector<std::string>& arguments) {
  std::string shell;
  CLI::App app("print what completes command lines in a shell", "troupe-loadgen completion");
  app.add_option("shell", shell, "bash, zsh or fish")->required();
  if (const auto status = parse_flags(app, arguments)) return *status;
  const auto script = completion_script(loadgen_manual(), shell);
  if (!script) throw std::runtime_error("expected bash, zsh or fish, got '" + shell + "'");
  std::fputs(script->c_str(), stdout);
  return kSuccess;
}

int run_man(const std::vector<std::string>& arguments) {
  CLI::App app("print the man page", "troupe-loadgen man");
  if (const auto status = parse_flags(app, arguments)) return *status;
  std::fputs(man_page(loadgen_manual()).c_str(), stdout);
  return kSuccess;
}

ManualCommand describe(const Subcommand& command) {
  ManualCommand described;
  try {
    command.run({kDescribe});
  } catch (const CommandDescribed& description) {
    described = description.command;
  }
  described.name = command.name;
  described.summary = command.summary;
  for (auto& option : described.options)
    if (option.names.front() == "SHELL") option.choices = {std::begin(kShells), std::end(kShells)};
  return described;
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
      {"sweep", "all runs of an experiment, and its report", sweep_command},
      {"report", "one HTML page of stored results; several are overlaid", report_command},
      {"calibrate", "what this generator can do on this machine", calibrate_command},
      {"profile", "what a live server adds to the costs of its device", profile_command},
      {"completion", "what completes command lines in bash, zsh or fish", run_completion},
      {"man", "the man page", run_man},
  };
  return table;
}

ProgramManual loadgen_manual() {
  ProgramManual manual{
      .name = "troupe-loadgen",
      .summary = "load experiments against servers with OpenAI's API",
      .version = TROUPE_VERSION,
      .commands = {},
      .sections = {
          {"ENVIRONMENT", {"\tTROUPE_LOADGEN_API_KEY, OPENAI_API_KEY\tsent as bearer token"}},
          {"EXIT STATUS",
           {"\t0\tall is well", "\t1\tmore requests failed than --max-error-share allows",
            "\t2\ta wrong command line or file; nothing was sent", "\t3\tthe server can't be reached"}},
          {"SEE ALSO", {"troupe(1)"}}}};
  for (const auto& command : command_table()) manual.commands.push_back(describe(command));
  return manual;
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
