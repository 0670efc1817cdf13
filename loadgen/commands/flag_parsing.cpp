// SPDX-License-Identifier: Apache-2.0
#include "loadgen/commands/flag_parsing.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "loadgen/commands/command_table.hpp"
#include "manual/described_command.hpp"
#include "telemetry/nearest_name.hpp"

namespace troupe::loadgen {
namespace {

std::string hint_for(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> known;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) known.push_back("--" + name);
  for (const auto& argument : arguments) {
    const auto flag = argument.substr(0, argument.find('='));
    if (!flag.starts_with("--") || std::find(known.begin(), known.end(), flag) != known.end()) continue;
    const auto nearest = nearest_name(flag, known);
    if (!nearest.empty()) return "; did you mean '" + nearest + "'?";
  }
  return "";
}

}  // namespace

std::optional<int> parse_flags(CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{kDescribe}) throw CommandDescribed{describe(app)};
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return std::nullopt;
  } catch (const CLI::Success& asked_for_help) {
    app.exit(asked_for_help);
    return kSuccess;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s%s\n(%s --help lists all flags)\n", app.get_name().c_str(), error.what(),
                 hint_for(app, arguments).c_str(), app.get_name().c_str());
    return kUsageError;
  }
}

}  // namespace troupe::loadgen
