// SPDX-License-Identifier: Apache-2.0
#include "loadgen/result/steadiness.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>

using namespace troupe::loadgen;
using namespace std::chrono_literals;

namespace {

// A request every 10 ms for ten seconds, behind a second of warm-up, each as long as told times noise.
RunResult run_where(const std::function<double(double second)>& milliseconds_at) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> noise(0, 0.3);
  RunResult result;
  result.measured_from = 1s;
  result.measured_until = 11s;
  for (int i = 0; i < 1100; ++i) {
    RequestRecord record;
    record.intended = i * 10ms;
    const double milliseconds = milliseconds_at(i / 100.0) * std::exp(noise(random));
    record.finished = record.intended + std::chrono::microseconds(static_cast<int>(milliseconds * 1000));
    record.output_tokens = 1;
    record.outcome = Outcome::kCompleted;
    result.records.push_back(record);
  }
  return result;
}

}  // namespace

TEST_CASE("steadiness: a run whose requests take as long all the time is steady") {
  CHECK(unsteadiness(run_where([](double) { return 50.0; })).empty());
}

TEST_CASE("steadiness: what the warm-up leaves out does not count") {
  CHECK(unsteadiness(run_where([](double second) { return second < 1 ? 900.0 : 50.0; })).empty());
}

TEST_CASE("steadiness: a slow begin behind the warm-up is told, and a queue that grows") {
  const auto slow_begin = unsteadiness(run_where([](double second) { return second < 3 ? 100.0 : 50.0; }));
  CHECK(slow_begin.starts_with("not steady: requests of the window's first quarter took "));
  CHECK(!unsteadiness(run_where([](double second) { return 20 + 10 * second; })).empty());
}

TEST_CASE("steadiness: of a few requests nothing is said") {
  auto run = run_where([](double second) { return second < 3 ? 100.0 : 50.0; });
  run.records.resize(110);
  CHECK(unsteadiness(run).empty());
}
