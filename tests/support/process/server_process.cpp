// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process/server_process.hpp"

#include <map>

namespace troupe::test {
namespace {

// Never the directory of whoever runs the tests, and no measurement that each
// server would make anew then; a flag has the last word.
const std::map<std::string, std::string> kKeepsNothing = {{"TROUPE_STORE_DIRECTORY", "none"},
                                                          {"TROUPE_CACHE_MEASURE", "false"}};

loadgen::ServerCommand troupe_serve(const std::vector<std::string>& flags, const std::filesystem::path& log) {
  std::vector<std::string> arguments = {TROUPE_BINARY, "serve", "--port", "0"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return {.arguments = std::move(arguments),
          .environment = kKeepsNothing,
          .log_file = log,
          .ready_path = "/ready"};
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& arguments) {
  const TemporaryFile output;
  CommandResult result;
  result.exit_status =
      loadgen::ChildProcess(
          {.arguments = arguments, .environment = kKeepsNothing, .output_file = output.path()})
          .wait();
  result.output = file_text(output.path());
  return result;
}

ServerProcess::ServerProcess(const std::vector<std::string>& flags)
    : server_(troupe_serve(flags, log_.path())) {}

}  // namespace troupe::test
