// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/reservation.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>

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

TEST_CASE("reservation: a look moves it by no less than a page and an eighth, upwards as downwards") {
  LookedAt look{.standing = 800, .least = 200, .max_tokens = 2000, .page_size = 32};
  for (const std::uint32_t near : {701U, 790U, 800U, 810U, 899U}) {
    look.wanted = near;
    CHECK(reservation_after_look(look) == 800);
  }
  for (const std::uint32_t far : {700U, 900U, 300U, 1900U}) {
    look.wanted = far;
    CHECK(reservation_after_look(look) == far);
  }
  look = {.standing = 100, .wanted = 131, .least = 90, .max_tokens = 2000, .page_size = 32};
  CHECK(reservation_after_look(look) == 100);  // less than a page
}

TEST_CASE("reservation: one that ends before the next look grows to last until then, however little") {
  LookedAt look{.standing = 800, .wanted = 700, .least = 801, .max_tokens = 2000, .page_size = 32};
  CHECK(reservation_after_look(look) == 801);
  look.wanted = 10;
  look.standing = 1500;
  CHECK(reservation_after_look(look) == 801);  // nor does it shrink further
  look.standing = 0;                           // no forecast has come
  CHECK(reservation_after_look(look) == 801);
  look.max_tokens = look.standing = 790;
  CHECK(reservation_after_look(look) == 790);
}

// Guesses are within a fifth of the length, as often below it as above.
TEST_CASE("reservation: over looks whose guesses are noise about the length, it is not the largest of them") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> noise(0.8, 1.2);
  double sum = 0;
  constexpr int kAnswers = 400, kLooks = 20;
  for (int answer = 0; answer < kAnswers; ++answer) {
    std::uint32_t standing = 1000;
    for (int i = 0; i < kLooks; ++i)
      standing = reservation_after_look({.standing = standing,
                                         .wanted = static_cast<std::uint32_t>(1000 * noise(random)),
                                         .least = 100,
                                         .max_tokens = 4000,
                                         .page_size = 32});
    sum += standing;
  }
  CHECK(sum / kAnswers == doctest::Approx(1000).epsilon(0.02));
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
