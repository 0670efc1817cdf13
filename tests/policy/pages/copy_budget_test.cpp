// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/copy_budget.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace troupe {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_CASE("copy budget: half of an iteration's link time, whatever the link") {
  const LoadCost fast{.fixed = 0, .per_page = 100'000};
  CHECK(max_copies_ahead(milliseconds(20), fast, 0) == 100);  // a prefill of 2,048 tokens fills 64
  CHECK(max_copies_ahead(milliseconds(2), fast, 0) == 10);
  const LoadCost slow{.fixed = 500'000, .per_page = 2'000'000};
  CHECK(max_copies_ahead(milliseconds(20), slow, 0) == 4);  // 9.5 ms are left of ten
}

TEST_CASE("copy budget: something goes however short the iteration, and not all however long") {
  const LoadCost link{.fixed = 1'000'000, .per_page = 100'000};
  CHECK(max_copies_ahead(microseconds(10), link, 0) == 1);
  CHECK(max_copies_ahead({}, link, 0) == 1);
  CHECK(max_copies_ahead(std::chrono::hours(1), link, 0) == kMostCopiesAhead);
}

TEST_CASE("copy budget: copies that are queued already are part of it") {
  const LoadCost link{.fixed = 0, .per_page = 100'000};
  CHECK(max_copies_ahead(milliseconds(20), link, 60) == 40);
  CHECK(max_copies_ahead(milliseconds(20), link, 200) == 0);
}

TEST_CASE("copy budget: copies that the program hides are none of its time") {
  const LoadCost link{.fixed = 0, .per_page = 100'000};
  CHECK(program_time(milliseconds(10), 0, link) == milliseconds(10));
  CHECK(program_time(milliseconds(10), 80, link) == milliseconds(10));
}

TEST_CASE("copy budget: copies that a batch waited for are no time for others") {
  const LoadCost link{.fixed = 0, .per_page = 100'000};
  CHECK(program_time(milliseconds(10), 90, link) == milliseconds(1));
  CHECK(program_time(milliseconds(10), 300, link) == milliseconds(0));
}

TEST_CASE("copy budget: where each batch restores, half of the link's time still goes ahead") {
  const LoadCost link{.fixed = 0, .per_page = 100'000};
  constexpr milliseconds kProgram(20);
  constexpr std::size_t kLoads = 50;  // 5 ms in each batch
  std::uint32_t num_ahead = 0;
  for (int batch = 0; batch < 8; ++batch) {
    const auto copies = microseconds(100) * (kLoads + num_ahead);
    const auto iteration = std::max<std::chrono::nanoseconds>(kProgram, copies);
    num_ahead = max_copies_ahead(program_time(iteration, kLoads + num_ahead, link), link, 0);
    CHECK(num_ahead == 100);
  }
}

TEST_CASE("copy budget: a few where copies were not measured") {
  CHECK(max_copies_ahead(milliseconds(20), {}, 0) == kCopiesAheadUnmeasured);
  CHECK(max_copies_behind(milliseconds(20), {}, 0) == kCopiesBehindUnmeasured);
}

TEST_CASE("copy budget: on the way to the disk, what is left of a quarter of the link's time") {
  const LoadCost link{.fixed = 0, .per_page = 100'000};
  CHECK(max_copies_behind(milliseconds(20), link, 0) == 50);
  CHECK(max_copies_behind(milliseconds(20), link, 30) == 20);
  CHECK(max_copies_behind(milliseconds(20), link, 100) == 0);
  CHECK(max_copies_behind(microseconds(10), link, 0) == kFewestCopiesBehind);
}

}  // namespace
}  // namespace troupe
