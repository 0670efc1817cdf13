// SPDX-License-Identifier: Apache-2.0
#include "http/limits.hpp"

#include <set>
#include <string>

#include <doctest/doctest.h>

using namespace troupe;

TEST_CASE("limits: the table names every limit once, with a unit and a reason") {
  std::set<std::string_view> names;
  const Limits limits;
  for (const auto& entry : kLimitTable) {
    CAPTURE(std::string(entry.name));
    CHECK(names.insert(entry.name).second);
    CHECK(limits.*entry.value > 0);
    CHECK(!entry.unit.empty());
    CHECK(entry.reason.size() > 10);
  }
  // All fields are of one type: none can be missing from the table unnoticed.
  CHECK(sizeof(Limits) == kLimitTable.size() * sizeof(std::uint64_t));
}

TEST_CASE("limits: the table points at distinct fields") {
  Limits limits;
  std::uint64_t mark = 1;
  for (const auto& entry : kLimitTable) limits.*entry.value = mark++;
  mark = 1;
  for (const auto& entry : kLimitTable) CHECK(limits.*entry.value == mark++);
}
