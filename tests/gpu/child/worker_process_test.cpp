// SPDX-License-Identifier: Apache-2.0
#include "gpu/child/worker_process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>

#include "gpu/child/frame_socket.hpp"

namespace troupe::child {
namespace {

constexpr std::chrono::seconds kLong{60};

struct Shell {
  explicit Shell(const std::string& script)
      : ends(FrameSocket::connected_pair()),
        process({.program = "/bin/sh", .arguments = {"sh", "-c", script}}, ends.second.descriptor()) {
    ends.second.close();
  }
  std::pair<FrameSocket, FrameSocket> ends;
  WorkerProcess process;
};

bool is_reaped(pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) < 0 && errno == ECHILD; }

std::size_t num_open() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace

TEST_CASE("child process: how it ended is known, and it is reaped") {
  Shell well("exit 3");
  const auto end = well.process.wait_for(kLong);
  REQUIRE(end);
  CHECK(to_string(*end) == "exited with status 3");
  CHECK(is_reaped(well.process.pid()));
  Shell killed("exec sleep 1000");  // no child of its own, which would stay
  CHECK_FALSE(killed.process.wait_for(std::chrono::milliseconds(0)));
  killed.process.signal(SIGKILL);
  CHECK(to_string(killed.process.wait_for(kLong).value()) == "was killed by signal 9 (SIGKILL)");
  killed.process.signal(SIGKILL);  // its number may be another's by now
}

TEST_CASE("child process: its end is seen at the socket, and it does not outlive the object") {
  pid_t pid = 0;
  {
    Shell shell("exec sleep 1000");
    pid = shell.process.pid();
  }
  CHECK(is_reaped(pid));
  Shell shell("exit 0");
  CHECK_THROWS_AS(shell.ends.first.receive(kLong), ConnectionLost);
}

TEST_CASE("child process: it gets the socket and nothing else, and signals as they are at first") {
  const int open_on_exec = ::open("/dev/null", O_RDONLY);  // no O_CLOEXEC
  // Descriptors above the socket's: the one of the listing itself.
  Shell shell(
      "for fd in 4 5 6 7 8 9; do if [ -e /proc/self/fd/$fd ]; then exit 1; fi; done;"
      "[ -S /proc/self/fd/3 ] || exit 2;"
      "grep -q 'SigBlk:.0*$' /proc/self/status || exit 3;"
      "[ \"$(ps -o pgid= $$ 2>/dev/null | tr -d ' ')\" = $$ ] || [ ! -x /bin/ps ] || exit 4;"
      "exit 0");
  CHECK(to_string(shell.process.wait_for(kLong).value()) == "exited with status 0");
  ::close(open_on_exec);
}

TEST_CASE("child process: nothing stays open, also where the program can't be started") {
  const auto before = num_open();
  for (int i = 0; i < 3; ++i) {
    { Shell shell("exit 0"); }
    auto ends = FrameSocket::connected_pair();
    CHECK_THROWS_WITH(
        WorkerProcess({.program = "/nonexistent/troupe", .arguments = {"troupe"}}, ends.second.descriptor()),
        "can't start the worker process '/nonexistent/troupe': No such file or directory");
  }
  CHECK(num_open() == before);
}

}  // namespace troupe::child
