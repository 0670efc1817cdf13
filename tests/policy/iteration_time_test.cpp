// SPDX-License-Identifier: Apache-2.0
#include "policy/iteration_time.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace troupe {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

bool is_near(nanoseconds value, nanoseconds expected, double tolerance) {
  return std::abs(static_cast<double>((value - expected).count())) <=
         tolerance * static_cast<double>(expected.count());
}

TEST_CASE("iteration_time: before the first batch nothing is predicted") {
  CHECK(IterationTime().predict(1000) == nanoseconds(0));
}

TEST_CASE("iteration_time: a batch moves the prediction by a tenth of what it missed") {
  IterationTime time;
  time.observe(8, milliseconds(100));
  CHECK(is_near(time.predict(8), milliseconds(10), 1e-6));
  time.observe(8, milliseconds(100));
  CHECK(is_near(time.predict(8), milliseconds(19), 1e-6));
}

TEST_CASE("iteration_time: an empty batch teaches nothing") {
  IterationTime time;
  time.observe(8, milliseconds(100));
  const auto before = time.predict(8);
  time.observe(0, seconds(100));
  CHECK(time.predict(8) == before);
}

TEST_CASE("iteration_time: batches that are all alike are predicted as they are") {
  IterationTime time;
  for (int i = 0; i < 100; ++i) time.observe(32, milliseconds(7));
  CHECK(is_near(time.predict(32), milliseconds(7), 0.001));
}

TEST_CASE("iteration_time: it follows a device that has become slower, or faster") {
  IterationTime time;
  for (const auto truth : {milliseconds(10), milliseconds(50), milliseconds(2)}) {
    for (int i = 0; i < 200; ++i) time.observe(16, truth);
    CHECK(is_near(time.predict(16), truth, 0.01));
  }
}

TEST_CASE("iteration_time: one slow batch among many is not believed") {
  IterationTime time;
  for (int i = 0; i < 100; ++i) time.observe(16, milliseconds(10));
  time.observe(16, milliseconds(100));
  CHECK(time.predict(16) < milliseconds(20));
}

TEST_CASE("iteration_time: a long prefill is predicted from decodes and prefills seen") {
  IterationTime time;
  const auto truth = [](std::uint32_t num_tokens) {
    return microseconds(500) + num_tokens * microseconds(40);
  };
  for (int i = 0; i < 300; ++i)
    for (const std::uint32_t num_tokens : {1, 8, 64, 512}) time.observe(num_tokens, truth(num_tokens));
  for (const std::uint32_t num_tokens : {8, 64, 512, 2048})
    CHECK(is_near(time.predict(num_tokens), truth(num_tokens), 0.25));
}

TEST_CASE("iteration_time: more tokens never take less time, and no time is negative") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    IterationTime time;
    for (int i = 0; i < 200; ++i) {
      time.observe(static_cast<std::uint32_t>(random() % 600), nanoseconds(random() % 100'000'000));
      nanoseconds last = time.predict(0);
      REQUIRE(last >= nanoseconds(0));
      for (const std::uint32_t num_tokens : {1, 2, 100, 8192}) {
        const auto predicted = time.predict(num_tokens);
        REQUIRE(predicted >= last);
        last = predicted;
      }
    }
  }
}

TEST_CASE("iteration_time: a stall takes five times the prediction, and ten seconds at least") {
  CHECK(stall_threshold(nanoseconds(0)) == seconds(10));
  CHECK(stall_threshold(seconds(2)) == seconds(10));
  CHECK(stall_threshold(seconds(2) + nanoseconds(1)) == seconds(10) + nanoseconds(5));
  CHECK(stall_threshold(seconds(60)) == seconds(300));
}

}  // namespace
}  // namespace troupe
