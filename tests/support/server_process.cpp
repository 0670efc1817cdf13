// SPDX-License-Identifier: Apache-2.0
#include "tests/support/server_process.hpp"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
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
  return {.arguments = std::move(arguments), .environment = kKeepsNothing, .log_file = log, .ready_path = "/ready"};
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& arguments) {
  const TemporaryPath output;
  CommandResult result;
  result.exit_status =
      loadgen::ChildProcess({.arguments = arguments, .environment = kKeepsNothing, .output_file = output.path()}).wait();
  result.output = text_of(output.path());
  return result;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TemporaryPath::TemporaryPath() {
  static std::atomic<unsigned> number = 0;
  const auto name = "troupe_test_" + std::to_string(::getpid()) + "_" + std::to_string(number++);
  path_ = std::filesystem::temp_directory_path() / name;
}

TemporaryPath::~TemporaryPath() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ServerProcess::ServerProcess(const std::vector<std::string>& flags) : server_(troupe_serve(flags, log_.path())) {}

}  // namespace troupe::test
