// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/reservation.hpp"

#include <doctest/doctest.h>

#include <array>

namespace troupe {
namespace {

TEST_CASE("reservation: its end is reported a page ahead, and never if there can be no more") {
  ForeseenLength length{.max_tokens = 100};
  length.reserve(40, 16);
  CHECK(length.reserved == 40);
  CHECK(length.report_at == 24);
  length.reserve(9, 16);
  CHECK(length.report_at == 9);
  length.reserve(300, 16);
  CHECK(length.reserved == 100);
  CHECK(length.report_at == ForeseenLength::kNever);
}

TEST_CASE("reservation: an overrun doubles it, as far as the answer may go") {
  CHECK(doubled_reservation({.reserved = 40, .max_tokens = 100}) == 80);
  CHECK(doubled_reservation({.reserved = 80, .max_tokens = 100}) == 100);
  CHECK(doubled_reservation({.reserved = 3'000'000'000, .max_tokens = 4'000'000'000}) == 4'000'000'000);
}

TEST_CASE("reservation: it grows where there is room, and gives way once where there is none") {
  CHECK(answer_overrun({.reserved = 40, .max_tokens = 100}, true) == OverrunAnswer::kGrow);
  CHECK(answer_overrun({.reserved = 40, .max_tokens = 100}, false) == OverrunAnswer::kGiveWay);
  CHECK(answer_overrun({.reserved = 80, .max_tokens = 100, .has_given_way = true}, false) ==
        OverrunAnswer::kGrow);
}

TEST_CASE("reservation: ranks of requests that follow each other are spread evenly") {
  for (std::uint32_t scenario = 0; scenario < 3; ++scenario) {
    std::array<int, 10> places{};
    for (std::uint64_t arrival = 1; arrival <= 100; ++arrival) {
      const double rank = spread_rank(arrival, scenario);
      REQUIRE(rank >= 0);
      REQUIRE(rank < 1);
      places[static_cast<std::size_t>(rank * 10)] += 1;
    }
    for (const int count : places) CHECK(std::abs(count - 10) <= 2);
  }
}

}  // namespace
}  // namespace troupe
