// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/disk_reserve.hpp"

#include <doctest/doctest.h>

namespace troupe {

TEST_CASE("disk reserve: a part of a small file system, so much of a large one") {
  CHECK(disk_reserve({.total = 1000, .available = 1000}) == 100);
  CHECK(disk_reserve({.total = 1ULL << 40, .available = 0}) == kMostReserved);
}

TEST_CASE("disk reserve: a file grows up to it, and not into it") {
  CHECK(has_room_for({.total = 1000, .available = 150}, 50));
  CHECK_FALSE(has_room_for({.total = 1000, .available = 149}, 50));
  CHECK_FALSE(has_room_for({.total = 1000, .available = 20}, 1));
}

TEST_CASE("disk reserve: the file of turns may take half of it") {
  CHECK(has_room_for_turns({.total = 1000, .available = 100}, 50));
  CHECK_FALSE(has_room_for_turns({.total = 1000, .available = 100}, 51));
  CHECK_FALSE(has_room_for_turns({.total = 1000, .available = 10}, 0));
}

TEST_CASE("disk reserve: what is lacking is what others have taken of it") {
  CHECK(lacking_space({.total = 1000, .available = 100}) == 0);
  CHECK(lacking_space({.total = 1000, .available = 500}) == 0);
  CHECK(lacking_space({.total = 1000, .available = 30}) == 70);
  CHECK(lacking_space({.total = 1000, .available = 0}) == 100);
}

}  // namespace troupe
