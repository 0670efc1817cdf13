// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/rate_search.hpp"

#include <doctest/doctest.h>

namespace troupe::loadgen {
namespace {

// A server that keeps its objectives up to a rate; counts what is tried.
struct Server {
  double most = 0;
  int num_trials = 0;

  RateTrial operator()(double rate) {
    ++num_trials;
    return RateTrial{.rate = rate, .measured = {}, .is_met = rate <= most};
  }
};

RateAnswer search(Server& server, double begin, double precision = 0.05) {
  return find_highest_rate([&](double rate) { return server(rate); }, begin, precision);
}

TEST_CASE("rate search: the highest rate is found from below and from above, as near as asked") {
  for (const double most : {0.03, 0.9, 1.0, 7.3, 900.0}) {
    for (const double precision : {0.2, 0.01}) {
      Server server{.most = most};
      const auto answer = search(server, 1, precision);
      REQUIRE(answer.highest);
      REQUIRE(answer.missed);
      CHECK(answer.highest->rate <= most);
      CHECK(answer.missed->rate > most);
      CHECK(answer.missed->rate <= answer.highest->rate * (1 + precision));
      CHECK_FALSE(answer.cut_short);
      CHECK(server.num_trials < 22);
    }
  }
}

TEST_CASE("rate search: a server that is never, or always, fast enough ends it") {
  Server never{.most = 0};
  CHECK_FALSE(search(never, 1).highest);
  CHECK(never.num_trials == 11);
  Server always{.most = 1e9};
  const auto answer = search(always, 3);
  CHECK(answer.highest->rate == 3 * kRateRange);
  CHECK_FALSE(answer.missed);
}

TEST_CASE("rate search: a trial that cannot be judged ends it with what is known") {
  const auto answer = find_highest_rate(
      [](double rate) -> std::variant<RateTrial, Unjudged> {
        if (rate > 4) return Unjudged::kGeneratorLate;
        return RateTrial{.rate = rate, .measured = {}, .is_met = true};
      },
      1, 0.05);
  CHECK(answer.highest->rate == 4);
  CHECK_FALSE(answer.missed);
  CHECK(answer.cut_short == Unjudged::kGeneratorLate);
}

}  // namespace
}  // namespace troupe::loadgen
