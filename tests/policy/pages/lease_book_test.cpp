// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/lease_book.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>

namespace troupe {
namespace {

PageLease lease_of(WorkerIndex worker, std::uint32_t page) {
  return {.worker = worker, .pages = {{.page = page}}};
}

TEST_CASE("lease book: a lease is found until it is taken") {
  LeaseBook book;
  CHECK(book.find(7) == nullptr);
  CHECK_FALSE(book.take(7).has_value());
  book.add(7, lease_of(2, 5));
  REQUIRE(book.find(7) != nullptr);
  CHECK(book.find(7)->worker == 2);
  CHECK(book.find(8) == nullptr);
  CHECK(book.take(7)->pages.front().page == 5);
  CHECK_FALSE(book.contains(7));
  CHECK(book.size() == 0);
}

TEST_CASE("lease book: all leases of one worker are taken, others stay") {
  LeaseBook book;
  for (LeaseId id = 0; id < 40; ++id) book.add(id, lease_of(id % 2 == 0 ? 0 : 1, 0));
  CHECK(book.take_all_of(1).size() == 20);
  CHECK(book.size() == 20);
  for (LeaseId id = 0; id < 40; ++id) CHECK(book.contains(id) == (id % 2 == 0));
}

TEST_CASE("lease book: whatever comes and goes, it has what a map has") {
  std::mt19937_64 random(1);
  LeaseBook book;
  std::map<LeaseId, std::uint32_t> pages;
  LeaseId last = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (pages.size() < 5 || (pages.size() < 90 && random() % 2 == 0)) {
      last += 1 + random() % 3;
      const auto page = static_cast<std::uint32_t>(random() % 1000);
      book.add(last, lease_of(0, page));
      pages.emplace(last, page);
    } else {
      const auto gone = pages.lower_bound(last - random() % 200);
      if (gone == pages.end()) continue;
      CHECK(book.take(gone->first)->pages.front().page == gone->second);
      pages.erase(gone);
    }
    REQUIRE(book.size() == pages.size());
    const LeaseId asked = last - random() % 200;
    const auto known = pages.find(asked);
    REQUIRE(book.contains(asked) == (known != pages.end()));
    if (known != pages.end()) REQUIRE(book.find(asked)->pages.front().page == known->second);
  }
  CHECK(book.all().size() == pages.size());
  for (const auto& [id, lease] : book.all()) CHECK(lease->pages.front().page == pages.at(id));
}

}  // namespace
}  // namespace troupe
