// SPDX-License-Identifier: Apache-2.0
#include "store/state_directory.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using troupe::test::TemporaryDirectory;

namespace {

std::string refusal(const std::filesystem::path& path) {
  try {
    const StateDirectory directory(path);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A variable of the environment, as it was before at the end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE(
    "state directory: it is created with what is above it, for its owner only, and can be opened again") {
  const TemporaryDirectory root;
  const auto path = root.path() / "a" / "b";
  for (int round = 0; round < 2; ++round) {
    const StateDirectory directory(path);
    struct stat status {};
    REQUIRE(::fstat(directory.descriptor(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    const int file = ::openat(directory.descriptor(), "x", O_CREAT | O_WRONLY | O_NOFOLLOW, 0600);
    CHECK(file >= 0);
    ::close(file);
    CHECK(directory.path() == std::filesystem::canonical(path));
    CHECK(std::filesystem::exists(path / "x"));
  }
}

TEST_CASE("state directory: one process at a time has it") {
  const TemporaryDirectory root;
  {
    const StateDirectory directory(root.path());
    CHECK(contains(refusal(root.path()), "another troupe is using it"));
  }
  CHECK(refusal(root.path()) == "");
}

TEST_CASE("state directory: who only looks is waited for, and keeps no server from it") {
  const TemporaryDirectory root;
  const int looker = ::open(root.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(looker, LOCK_SH) == 0);
  const int watch = ::inotify_init1(IN_CLOEXEC);
  REQUIRE(::inotify_add_watch(watch, root.path().c_str(), IN_OPEN) >= 0);
  const std::jthread leaves([&] {
    alignas(inotify_event) char event[4096];
    CHECK(::read(watch, event, sizeof event) > 0);  // the directory is opened, and then locked
    ::close(looker);
  });
  CHECK(refusal(root.path()) == "");
  ::close(watch);
}

TEST_CASE("state directory: a link, a file and what others may write into are refused, and named") {
  const TemporaryDirectory root;
  std::filesystem::create_directory(root.path() / "real");
  std::filesystem::create_directory_symlink(root.path() / "real", root.path() / "link");
  std::ofstream(root.path() / "file") << "x";
  std::filesystem::create_directory(root.path() / "open");
  ::chmod((root.path() / "open").c_str(), 0777);
  for (const auto* name : {"link", "link/", "file", "open", "file/below"}) {
    CAPTURE(name);
    CHECK(contains(refusal(root.path() / name), root.path().string()));
  }
  CHECK(contains(refusal(root.path() / "link"), "no symbolic link"));
  CHECK(contains(refusal(root.path() / "open"), "chmod 700"));
  CHECK(refusal("") != "");
}

TEST_CASE("state directory: one that can't be written into is refused") {
  CHECK(contains(refusal("/proc/nope"), "/proc/nope"));
  CHECK(contains(refusal("/proc/self/fdinfo"), "/proc/self/fdinfo"));
}

TEST_CASE("state directory: the default follows XDG_STATE_HOME, then HOME") {
  {
    const Variable state("XDG_STATE_HOME", "/x/state");
    CHECK(default_state_directory() == "/x/state/troupe");
  }
  const Variable state("XDG_STATE_HOME", nullptr);
  {
    const Variable home("HOME", "/home/me");
    CHECK(default_state_directory() == "/home/me/.local/state/troupe");
  }
  const Variable home("HOME", nullptr);
  CHECK_FALSE(default_state_directory());
}
