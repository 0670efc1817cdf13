// SPDX-License-Identifier: Apache-2.0
#include "telemetry/spawn.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

int status_of(const SpawnCommand& command) {
  pid_t pid = -1;
  REQUIRE(spawn(command, pid) == 0);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

SpawnCommand shell(const std::string& script, const test::TemporaryFile& output) {
  return {.program = "sh", .arguments = {"sh", "-c", script}, .output_file = output.path()};
}

}  // namespace

TEST_CASE("spawn: a program has its output in a file, and more in its environment") {
  const test::TemporaryFile output;
  SpawnCommand command = shell("echo $COLOR; echo $HOME >&2; exit 7", output);
  command.environment = {{"COLOR", "red"}, {"HOME", "/nowhere"}};
  CHECK(status_of(command) == 7);
  CHECK(test::file_text(output.path()) == "red\n/nowhere\n");
}

TEST_CASE("spawn: what we have open and what we ignore is not the program's") {
  const test::TemporaryFile output;
  const int open_on_exec = ::open("/dev/null", O_RDONLY);  // no O_CLOEXEC
  struct sigaction before {};
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGUSR1, &ignored, &before);
  // The shell's own listing is the one at 3 or above.
  CHECK(status_of(shell("[ ! -e /proc/$$/fd/3 ] && [ ! -e /proc/$$/fd/" + std::to_string(open_on_exec) + " ]",
                        output)) == 0);
  CHECK(status_of(shell("kill -USR1 $$", output)) == -SIGUSR1);
  SpawnCommand command = shell("[ -e /proc/$$/fd/3 ] && [ ! -e /proc/$$/fd/4 ]", output);
  command.descriptor = open_on_exec;
  CHECK(status_of(command) == 0);
  ::sigaction(SIGUSR1, &before, nullptr);
  ::close(open_on_exec);
}

TEST_CASE("spawn: it is a process group of its own") {
  const test::TemporaryFile output;
  pid_t pid = -1;
  REQUIRE(spawn({.program = "sleep", .arguments = {"sleep", "1000"}, .output_file = output.path()}, pid) ==
          0);
  CHECK(::getpgid(pid) == pid);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST_CASE("spawn: a program that is not there is an error number") {
  pid_t pid = -1;
  CHECK(spawn({.program = "/no/such/program", .arguments = {"x"}}, pid) == ENOENT);
  CHECK(spawn({.program = "true", .arguments = {"true"}, .output_file = "/no/such/folder/log"}, pid) ==
        ENOENT);
}

}  // namespace troupe
