// SPDX-License-Identifier: Apache-2.0
#include "store/read_time.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/temporary_directory.hpp"

using namespace troupe;

TEST_CASE("read time: reading takes time, and nothing is left in the directory") {
  const test::TemporaryDirectory directory;
  const int descriptor = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  for (const std::uint64_t page_bytes : {1ULL, 40'960ULL, 3'000'001ULL}) {
    std::string problem = "old";
    CHECK(measure_read_time(descriptor, page_bytes, problem) > 0);
    CHECK(problem == "");
  }
  CHECK(std::filesystem::is_empty(directory.path()));
  ::close(descriptor);
}

TEST_CASE("read time: where no file can be made, it says so") {
  std::string problem;
  CHECK(measure_read_time(-1, 4096, problem) == 0);
  CHECK(problem == "a file can't be made: Bad file descriptor");
}
