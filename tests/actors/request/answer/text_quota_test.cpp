// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/text_quota.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace troupe {

TEST_CASE("text quota: one tenant alone gets half, and what it gives back is free again") {
  const auto quota = std::make_shared<TextQuota>(100);
  auto first = TextQuota::take(quota, "a", 30);
  REQUIRE(first);
  {
    const auto second = TextQuota::take(quota, "a", 20);
    CHECK(second);
    CHECK(!TextQuota::take(quota, "a", 1));
  }
  CHECK(quota->num_bytes() == 30);
  first = TextQuota::take(quota, "a", 10);  // both for a moment, then the new one
  CHECK(quota->num_bytes() == 10);
  first.reset();
  CHECK(quota->num_bytes() == 0);
  CHECK(!TextQuota::take(quota, "a", 51));
  CHECK(!TextQuota::take(quota, "a", 1000));
}

TEST_CASE("text quota: whatever the others hold, a new tenant finds room") {
  const auto quota = std::make_shared<TextQuota>(1024);
  std::vector<TextLease> leases;
  for (const char* tenant : {"a", "b", "c", "d"}) {
    std::size_t num_held = 0;
    while (auto lease = TextQuota::take(quota, tenant, 1)) {
      leases.push_back(std::move(*lease));
      ++num_held;
    }
    CHECK(num_held > 0);
    CHECK(num_held >= (1024 - quota->num_bytes()));
  }
  leases.clear();
  CHECK(quota->num_bytes() == 0);
}

TEST_CASE(
    "text quota: leases of nothing, as of prompts of token ids, are given and given back beside others") {
  const auto quota = std::make_shared<TextQuota>(100);
  auto first = TextQuota::take(quota, "a", 0), second = TextQuota::take(quota, "a", 0);
  REQUIRE(first);
  REQUIRE(second);
  first.reset();
  second.reset();  // two with nothing in between: the second finds no entry
  auto held = TextQuota::take(quota, "a", 50);
  {
    const auto others = TextQuota::take(quota, "b", 20);
    CHECK(quota->num_bytes() == 70);
    CHECK(TextQuota::take(quota, "a", 0));  // though it holds more than is free
  }
  held.reset();
  held = TextQuota::take(quota, "a", 30);
  CHECK(!TextQuota::take(quota, "a", 36));  // of the 70 that are free as much as it would hold
  CHECK(TextQuota::take(quota, "a", 20));
  held.reset();
  CHECK(quota->num_bytes() == 0);
}

}  // namespace troupe
