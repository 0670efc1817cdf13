// SPDX-License-Identifier: Apache-2.0
// Exit statuses of a test program whose cases skip: ctest goes by them.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

int status_of(const std::string& cases) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const int status = std::system((program + " --no-skip -tc='" + cases + "' >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("played skip: says so and leaves" * doctest::skip()) { MESSAGE("SKIPPED: it is only played"); }

TEST_CASE("played skip: says so and fails" * doctest::skip()) {
  MESSAGE("SKIPPED: it is only played");
  CHECK(false);
}

TEST_CASE("played skip: passes" * doctest::skip()) { CHECK(true); }

TEST_CASE("skipped cases: one that says SKIPPED and then fails has failed") {
  CHECK(status_of("played skip: says so and leaves") == 77);
  CHECK(status_of("played skip: says so and fails") == 1);
  CHECK(status_of("played skip: passes") == 0);
  CHECK(status_of("played skip: says so and *") == 1);
  CHECK(status_of("played skip: says so and leaves,played skip: passes") == 0);
}
