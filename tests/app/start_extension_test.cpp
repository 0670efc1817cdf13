// SPDX-License-Identifier: Apache-2.0
#include "app/start_extension.hpp"

#include <doctest/doctest.h>

using namespace troupe;
using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_CASE("start extension: a process that computes or reads gets on, one that waits does not") {
  const ProcessUse before{.cpu_time = milliseconds(500), .num_blocks_read = 7, .num_faults_read = 3};
  CHECK_FALSE(has_got_on(before, before));
  ProcessUse now = before;
  now.cpu_time += milliseconds(1);  // the thread that looks
  CHECK_FALSE(has_got_on(before, now));
  now.cpu_time += milliseconds(100);
  CHECK(has_got_on(before, now));
  now = before;
  now.num_blocks_read += 1;
  CHECK(has_got_on(before, now));
  now = before;
  now.num_faults_read += 1;
  CHECK(has_got_on(before, now));
}

TEST_CASE("start extension: what a process computes counts") {
  const ProcessUse before = process_use();
  volatile std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 200'000; ++i) sum = sum + i;
  CHECK(process_use().cpu_time >= before.cpu_time);
  CHECK(process_use().cpu_time > microseconds(0));
}
