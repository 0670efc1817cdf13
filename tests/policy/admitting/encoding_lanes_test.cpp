// SPDX-License-Identifier: Apache-2.0
#include "policy/admitting/encoding_lanes.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

namespace troupe {
namespace {

constexpr std::size_t kKilo = 1024;

WaitingText text(std::uint64_t id, std::size_t num_bytes, const std::string& tenant = "") {
  return {.id = id, .num_bytes = num_bytes, .tenant = tenant};
}

}  // namespace

TEST_CASE("encoding lanes: a lane's texts are at most four times as long as those of the one before") {
  CHECK(EncodingLanes::lane_of(1) == 0);
  CHECK(EncodingLanes::lane_of(64 * kKilo) == 0);
  CHECK(EncodingLanes::lane_of(64 * kKilo + 1) == 1);
  CHECK(EncodingLanes::lane_of(1024 * kKilo) == 2);
  CHECK(EncodingLanes::lane_of(16 * 1024 * kKilo) == 4);
  for (std::size_t lane = 1; lane < EncodingLanes::kLaneBytes.size(); ++lane)
    CHECK(EncodingLanes::kLaneBytes[lane] == 4 * EncodingLanes::kLaneBytes[lane - 1]);
}

TEST_CASE("encoding lanes: a text waits for none of another lane") {
  EncodingLanes lanes;
  lanes.add(text(1, 16 * 1024 * kKilo));
  lanes.add(text(2, 1024 * kKilo));
  lanes.add(text(3, 5 * kKilo));
  CHECK(lanes.take(0) == 3);
  CHECK(lanes.take(0) == std::nullopt);
  CHECK(lanes.take(2) == 2);
  CHECK(lanes.take(4) == 1);
}

TEST_CASE("encoding lanes: however many wait, a short text is at most one old one away") {
  EncodingLanes lanes;
  std::uint64_t id = 0;
  for (int round = 0; round < 8; ++round) {
    while (lanes.num_waiting() < 500) lanes.add(text(++id, 64 * kKilo));
    lanes.add(text(1'000'000, 5 * kKilo));
    int num_before = 0;
    while (lanes.take(0) != 1'000'000) ++num_before;
    CHECK(num_before <= 1);
  }
}

TEST_CASE("encoding lanes: a long text gets its turn among ever more short ones") {
  EncodingLanes lanes;
  lanes.add(text(1, 64 * kKilo));
  std::uint64_t id = 1;
  int num_before = 0;
  for (;; ++num_before) {
    lanes.add(text(++id, 5 * kKilo));
    lanes.add(text(++id, 5 * kKilo));
    if (lanes.take(0) == 1) break;
    REQUIRE(num_before < 100);
  }
  CHECK(num_before < 4);
}

TEST_CASE("encoding lanes: tenants have equal shares by bytes, whoever asks for more") {
  EncodingLanes lanes;
  std::uint64_t id = 0;
  for (int i = 0; i < 1000; ++i) lanes.add(text(++id, 40 * kKilo, "greedy"));
  const std::uint64_t first_of_other = id + 1;
  for (int i = 0; i < 8; ++i) lanes.add(text(++id, 10 * kKilo, "other"));
  int num_greedy = 0, num_other = 0;
  while (num_other < 8) {
    const auto taken = lanes.take(0);
    REQUIRE(taken);
    (*taken >= first_of_other ? num_other : num_greedy) += 1;
  }
  CHECK(num_greedy <= 3);  // 80 KiB of the other's, and the text at the border
}

TEST_CASE("encoding lanes: nobody saves up turns while away") {
  EncodingLanes lanes;
  std::uint64_t id = 0;
  for (int i = 0; i < 100; ++i) {
    lanes.add(text(++id, 10 * kKilo, "steady"));
    lanes.take(0);
  }
  for (int i = 0; i < 20; ++i) lanes.add(text(++id, 10 * kKilo, "steady"));
  for (int i = 0; i < 20; ++i) lanes.add(text(1000 + ++id, 10 * kKilo, "late"));
  int num_late = 0;
  for (int i = 0; i < 10; ++i) num_late += *lanes.take(0) > 1000 ? 1 : 0;
  CHECK(num_late >= 4);
  CHECK(num_late <= 6);
}

TEST_CASE("encoding lanes: each text is taken or removed, once") {
  std::mt19937 random(3);
  EncodingLanes lanes;
  std::set<std::uint64_t> waiting;
  std::uint64_t id = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto choice = random() % 5;
    if (choice < 2) {
      lanes.add(text(++id, 1 + random() % (8 * 1024 * kKilo), std::string(1, "abc"[random() % 3])));
      waiting.insert(id);
    } else if (choice == 2) {
      const std::uint64_t victim = 1 + random() % (id + 1);
      CHECK(lanes.remove(victim) == (waiting.erase(victim) == 1));
    } else if (const auto taken = lanes.take(random() % EncodingLanes::kNumLanes)) {
      CHECK(waiting.erase(*taken) == 1);
    }
    REQUIRE(lanes.num_waiting() == waiting.size());
  }
}

}  // namespace troupe
