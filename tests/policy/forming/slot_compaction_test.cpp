// SPDX-License-Identifier: Apache-2.0
#include "policy/forming/slot_compaction.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string_view>

using namespace troupe;

namespace {

constexpr std::size_t kMaxSlots = 64;

// '#' is a live slot.
struct Slots {
  explicit Slots(std::string_view text) : size(text.size()) {
    for (std::size_t i = 0; i < size; ++i) live[i] = text[i] == '#';
  }
  Slots() = default;
  std::span<const bool> view() const { return {live.data(), size}; }
  std::array<bool, kMaxSlots> live{};
  std::size_t size = 0;
};

// The fewest moves to any window, by trying all.
std::size_t fewest_moves(const Slots& slots, std::size_t count) {
  std::size_t fewest = count;
  for (std::size_t first = 0; first + count <= slots.size; ++first) {
    const auto begin = slots.live.begin() + static_cast<std::ptrdiff_t>(first);
    const auto inside = std::count(begin, begin + static_cast<std::ptrdiff_t>(count), true);
    fewest = std::min(fewest, count - static_cast<std::size_t>(inside));
  }
  return fewest;
}

}  // namespace

TEST_CASE("slot compaction: what lies outside the best window moves into its holes") {
  // 16 slots, 9 live; 4 … 12 hold six of them, so three move.
  const Slots slots("#...##.#.##.#.##");
  const auto compaction = compact_slots(slots.view());
  CHECK(compaction.count == 9);
  CHECK(compaction.moves.size() == fewest_moves(slots, 9));
  CHECK(compaction.moves.size() == 3);
}

TEST_CASE("slot compaction: nothing live, all live, or side by side already moves nothing") {
  for (const auto* text : {"", "....", "####", "..###...", "...#", "#..."}) {
    CAPTURE(text);
    const auto compaction = compact_slots(Slots(text).view());
    CHECK(compaction.moves.empty());
  }
  CHECK(compact_slots(Slots("..###...").view()).first == 2);
}

TEST_CASE("slot compaction: live slots end in one window with the fewest moves possible") {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    Slots slots;
    slots.size = random() % (kMaxSlots + 1);
    const auto share = random() % 11;
    for (std::size_t i = 0; i < slots.size; ++i) slots.live[i] = random() % 10 < share;
    const auto compaction = compact_slots(slots.view());
    REQUIRE(compaction.moves.size() == fewest_moves(slots, compaction.count));
    auto after = slots.live;
    for (const auto& move : compaction.moves) {
      REQUIRE(slots.live[move.from]);
      REQUIRE(!slots.live[move.to]);
      REQUIRE(!after[move.to]);  // no slot gets two
      after[move.from] = false;
      after[move.to] = true;
    }
    for (std::size_t i = 0; i < slots.size; ++i) {
      const bool is_inside = i >= compaction.first && i < std::size_t{compaction.first} + compaction.count;
      REQUIRE(after[i] == is_inside);
    }
  }
}
