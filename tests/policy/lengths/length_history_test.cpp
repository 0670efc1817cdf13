// SPDX-License-Identifier: Apache-2.0
#include "policy/lengths/length_history.hpp"

#include <doctest/doctest.h>

namespace troupe {
namespace {

LengthHistory history_of(std::uint32_t first, std::uint32_t last) {
  LengthHistory history;
  for (std::uint32_t length = first; length <= last; ++length) history.add(length);
  return history;
}

TEST_CASE("length history: nothing is known, so an answer may be as long as it is allowed") {
  CHECK(LengthHistory().length_at(0.0, 0, 500) == 500);
  LengthHistory one;
  one.add(10);
  CHECK(one.length_at(0.0, 0, 500) == 10);
  CHECK(one.length_at(0.1, 0, 500) == 500);
}

TEST_CASE("length history: ranks go through the known lengths, and then to the limit") {
  const LengthHistory history = history_of(1, 99);
  CHECK(history.length_at(0.0, 0, 500) == 1);
  CHECK(history.length_at(0.5, 0, 500) == 51);
  CHECK(history.length_at(0.995, 0, 500) == 500);
  CHECK(history.length_at(0.5, 0, 20) == 20);
}

TEST_CASE("length history: what an answer has already, it is longer than") {
  const LengthHistory history = history_of(1, 99);
  CHECK(history.length_at(0.0, 50, 500) == 51);
  CHECK(history.length_at(0.5, 49, 500) == 75);
  CHECK(history.length_at(0.0, 99, 500) == 500);
}

TEST_CASE("length history: only the last answers count") {
  LengthHistory history;
  for (int i = 0; i < 300; ++i) history.add(1000);
  for (std::size_t i = 0; i < LengthHistory::kMostAnswers; ++i) history.add(7);
  CHECK(history.sorted().size() == LengthHistory::kMostAnswers);
  CHECK(history.length_at(0.99, 0, 5000) == 7);
}

}  // namespace
}  // namespace troupe
