// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/stream_credit.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>

using namespace troupe;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST_CASE("stream credit: encoders earn a quarter of their time, and streams spend theirs") {
  StreamCredit credit;
  CHECK_FALSE(credit.is_left());
  credit.earn(milliseconds(40));
  CHECK(credit.is_left());
  credit.spend(milliseconds(9));
  CHECK(credit.is_left());
  credit.spend(milliseconds(1));
  CHECK_FALSE(credit.is_left());
}

TEST_CASE("stream credit: neither credit nor debt goes beyond its bound") {
  StreamCredit credit;
  for (int i = 0; i < 100; ++i) credit.earn(milliseconds(1000));
  credit.spend(StreamCredit::kMost - nanoseconds(1));
  CHECK(credit.is_left());
  for (int i = 0; i < 100; ++i) credit.spend(milliseconds(1000));
  credit.earn(StreamCredit::kTimesEarned * StreamCredit::kMost);
  CHECK_FALSE(credit.is_left());
  credit.earn(nanoseconds(StreamCredit::kTimesEarned));
  CHECK(credit.is_left());
}

TEST_CASE("stream credit: a clock that goes back earns and spends nothing") {
  StreamCredit credit;
  credit.earn(milliseconds(4));
  credit.earn(milliseconds(-100));
  credit.spend(milliseconds(-100));
  CHECK(credit.is_left());
  credit.spend(milliseconds(1));
  CHECK_FALSE(credit.is_left());
}

TEST_CASE(
    "stream credit: streams spend no more than a quarter of what encoders took, and the batches then in "
    "flight") {
  std::mt19937_64 random(7);
  for (const int stream_time : {1, 30, 200}) {  // milliseconds, at most; of encoders 10
    CAPTURE(stream_time);
    const auto draw = [&](int most) {
      return nanoseconds(1 + static_cast<std::int64_t>(random() % (most * 1'000'000ULL)));
    };
    StreamCredit credit;
    nanoseconds encoders{0}, streams{0};
    for (int i = 0; i < 20'000; ++i) {
      if (credit.is_left() && random() % 4 > 0) {
        for (int batch = 0; batch < 2; ++batch) {  // in flight at once
          const nanoseconds time = draw(stream_time);
          credit.spend(time);
          streams += time;
        }
      } else {
        const nanoseconds time = draw(10);
        credit.earn(time);
        encoders += time;
      }
      REQUIRE(streams <= encoders / StreamCredit::kTimesEarned + milliseconds(2 * stream_time));
    }
    CHECK(streams > encoders / 5);
  }
}
