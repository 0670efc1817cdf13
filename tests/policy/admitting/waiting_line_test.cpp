// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/waiting_line.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <vector>

namespace troupe {
namespace {

using Arrivals = std::vector<std::uint64_t>;

bool any(std::uint64_t) { return true; }

Arrivals serve_all(WaitingLine& line) {
  Arrivals served;
  while (const auto next = line.next(any)) {
    served.push_back(*next);
    line.start(*next);
  }
  return served;
}

WaitingLine line_of(AdmissionOrder order, double most_wait, const std::vector<std::uint64_t>& works) {
  WaitingLine line(order, most_wait);
  for (std::size_t i = 0; i < works.size(); ++i) line.wait(i + 1, works[i]);
  return line;
}

TEST_CASE("waiting line: the longest or the shortest goes first where the bound allows") {
  WaitingLine longest = line_of(AdmissionOrder::kLongestFirst, 100, {10, 30, 20});
  CHECK(serve_all(longest) == Arrivals{2, 3, 1});
  WaitingLine shortest = line_of(AdmissionOrder::kShortestFirst, 100, {30, 10, 20});
  CHECK(serve_all(shortest) == Arrivals{2, 3, 1});
}

TEST_CASE("waiting line: equal works go in order of arrival") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 100, {5, 5, 5});
  CHECK(serve_all(line) == Arrivals{1, 2, 3});
}

TEST_CASE("waiting line: with a bound of 1 nothing is overtaken") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 1, {30, 20, 10});
  CHECK(serve_all(line) == Arrivals{1, 2, 3});
}

TEST_CASE("waiting line: one that does not fit is passed, until its allowance is spent") {
  WaitingLine line = line_of(AdmissionOrder::kLongestFirst, 2, {30, 20, 20});
  const auto fits = [](std::uint64_t request) { return request != 1; };
  REQUIRE(line.next(fits) == 2);
  line.start(2);
  CHECK_FALSE(line.next(fits));  // 10 of its allowance of 30 are left
  CHECK(line.next(any) == 1);
}

TEST_CASE("waiting line: a work that is known better changes the order") {
  WaitingLine line = line_of(AdmissionOrder::kShortestFirst, 100, {10, 20});
  line.set_work(2, 5);
  line.set_work(7, 1);  // not there
  CHECK(serve_all(line) == Arrivals{2, 1});
}

// Work that starts while a request waits, over its fair share, in random traffic.
double worst_wait(AdmissionOrder order, double most_wait, std::uint64_t seed) {
  struct Waiting {
    double share = 0, started = 0;
    std::uint64_t work = 0;
  };
  std::mt19937_64 random(seed);
  const auto draw = [&](std::uint64_t most) { return random() % most; };
  WaitingLine line(order, most_wait);
  std::map<std::uint64_t, Waiting> waiting;
  std::uint64_t last = 0;
  double worst = 0;
  for (int i = 0; i < 3000; ++i) {
    if (draw(100) < 52) {  // works of all sizes: few are long
      Waiting newcomer{.work = 1 + draw(10) * draw(10) * draw(10)};
      for (const auto& [other, one] : waiting) newcomer.share += static_cast<double>(one.work);
      newcomer.share += static_cast<double>(newcomer.work);
      line.wait(++last, newcomer.work);
      waiting.emplace(last, newcomer);
      continue;
    }
    const std::uint64_t mask = random();
    const auto next = line.next([&](std::uint64_t request) { return ((mask >> (request % 64)) & 3U) != 0; });
    if (!next) continue;
    const auto work = static_cast<double>(waiting.at(*next).work);
    line.start(*next);
    for (auto& [request, one] : waiting) {
      one.started += work;  // its own, too, at last
      worst = std::max(worst, one.started / one.share);
    }
    waiting.erase(*next);
  }
  return worst;
}

TEST_CASE("waiting line: nothing waits for more than k times its fair share of work") {
  for (const auto order : {AdmissionOrder::kLongestFirst, AdmissionOrder::kShortestFirst})
    for (const double most_wait : {1.0, 2.0, 4.0})
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        CAPTURE(most_wait);
        CAPTURE(seed);
        const double worst = worst_wait(order, most_wait, seed);
        CHECK(worst <= most_wait + 1e-9);
        CHECK(worst > most_wait * 0.9);  // what may overtake does
      }
}

}  // namespace
}  // namespace troupe
