// SPDX-License-Identifier: Apache-2.0
#include "store/read_time.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "tests/support/temporary_directory.hpp"

using namespace troupe;

TEST_CASE("read time: reading takes time, and nothing is left in the directory") {
  const test::TemporaryDirectory directory;
  const int descriptor = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  for (const std::uint64_t page_bytes : {1ULL, 40'960ULL, 3'000'001ULL})
    CHECK(measure_read_time(descriptor, page_bytes) > 0);
  CHECK(std::filesystem::is_empty(directory.path()));
  ::close(descriptor);
}

TEST_CASE("read time: where no file can be made, it says so") {
  CHECK_THROWS_WITH_AS(measure_read_time(-1, 4096), "a file can't be made: Bad file descriptor",
                       std::runtime_error);
}
