// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/server/server_process.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe::loadgen;
using troupe::test::file_text;
using troupe::test::TemporaryFile;
using namespace std::chrono_literals;

namespace {

ChildCommand shell(const TemporaryFile& log, const std::string& script) {
  return {.arguments = {"sh", "-c", script}, .environment = {{"WHO", "me"}}, .output_file = log.path()};
}

std::string failure_of(ServerCommand command) {
  try {
    ServerProcess server(command);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("child process: output, environment and exit status") {
  const TemporaryFile log;
  CHECK(ChildProcess(shell(log, "echo it is $WHO; echo oops >&2; exit 7")).wait() == 7);
  CHECK(file_text(log.path()) == "it is me\noops\n");
  CHECK(ChildProcess(shell(log, "kill -TERM $$")).wait() == 128 + SIGTERM);
}

TEST_CASE("child process: it does not outlive the object, and a running one has no status") {
  const TemporaryFile log;
  pid_t pid = 0;
  {
    ChildProcess child({.arguments = {"sleep", "1000"}, .environment = {}, .output_file = log.path()});
    pid = child.pid();
    CHECK_FALSE(child.wait_for(0ms).has_value());
  }
  CHECK(::kill(pid, 0) == -1);
}

TEST_CASE("child process: a program that is not there, or a log that can't be, is named") {
  const TemporaryFile log;
  CHECK_THROWS_WITH(
      ChildProcess({.arguments = {"/no/such/program"}, .environment = {}, .output_file = log.path()}),
      doctest::Contains("can't start '/no/such/program'"));
  CHECK_THROWS_WITH(ChildProcess({.arguments = {"true"}, .environment = {}, .output_file = "/no/such/log"}),
                    doctest::Contains("/no/such/log"));
  CHECK_THROWS(ChildProcess({.arguments = {}, .environment = {}, .output_file = log.path()}));
}

TEST_CASE("server process: one that ends early is reported with status and log") {
  const TemporaryFile log;
  const auto failure = failure_of({.arguments = {"sh", "-c", "echo no model at port {port}; exit 3"},
                                   .environment = {},
                                   .log_file = log.path()});
  CHECK(failure.starts_with("the server ended with status 3 before it was ready"));
  CHECK(failure.find("no model at port ") != std::string::npos);
  CHECK(failure.find("{port}") == std::string::npos);
}

TEST_CASE("server process: one that never gets ready is ended") {
  const TemporaryFile log;
  const auto failure = failure_of({.arguments = {"sh", "-c", "echo starting; exec sleep 1000"},
                                   .environment = {},
                                   .log_file = log.path(),
                                   .start_timeout = 0s});
  CHECK(failure.starts_with("the server was not ready within 0 s"));
}
