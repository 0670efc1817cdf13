// SPDX-License-Identifier: Apache-2.0
#include "policy/page_pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/policy/audited_pool.hpp"

namespace troupe {
namespace {

using Tokens = std::vector<std::int32_t>;

PagePool pool_of(std::uint32_t num_pages, bool prefix_cache = true) {
  return PagePool({.num_pages = num_pages,
                   .page_size = 2,
                   .prefix_cache = prefix_cache,
                   .secret = {.k0 = 1, .k1 = 2}});
}

PageDemand exactly(std::uint32_t num_pages) { return {.required = num_pages, .wanted = num_pages}; }

// Pages for all of `tokens`, computed and committed.
std::vector<std::uint32_t> run(PagePool& pool, ReservationId id, const Tokens& tokens) {
  const auto num_pages = static_cast<std::uint32_t>((tokens.size() + 1) / 2);
  const auto grant = pool.reserve(id, tokens, exactly(num_pages));
  REQUIRE(grant.has_value());
  const std::span<const std::int32_t> all(tokens);
  for (std::size_t i = grant->cached_tokens; i + 2 <= tokens.size(); i += 2)
    pool.commit(id, all.subspan(i, 2));
  return grant->pages;
}

void run_and_release(PagePool& pool, ReservationId id, const Tokens& tokens) {
  run(pool, id, tokens);
  pool.release(id);
}

// How much of `tokens` would be shared now; leaves the order of eviction alone
// only if nothing is.
std::uint32_t cached_tokens(PagePool& pool, const Tokens& tokens) {
  constexpr ReservationId kProbe = 999;
  const auto grant = pool.reserve(kProbe, tokens, {});
  REQUIRE(grant.has_value());
  pool.release(kProbe);
  return grant->cached_tokens;
}

void check_counts(const PagePool& pool, std::uint32_t free, std::uint32_t cached,
                  std::uint32_t running) {
  const PageCounts counts = pool.counts();
  CHECK(counts.free == free);
  CHECK(counts.cached == cached);
  CHECK(counts.running == running);
  CHECK(pool.is_consistent());
}

TEST_CASE("page_pool: in the beginning all pages are free") {
  check_counts(pool_of(5), 5, 0, 0);
}

TEST_CASE("page_pool: a reservation takes what it wants if there are enough") {
  PagePool pool = pool_of(5);
  const auto grant = pool.reserve(1, Tokens{1, 2, 3}, {.required = 2, .wanted = 4});
  REQUIRE(grant.has_value());
  CHECK(grant->pages.size() == 4);
  CHECK(grant->cached_tokens == 0);
  check_counts(pool, 1, 0, 4);
}

TEST_CASE("page_pool: a reservation takes what there is, if that is what it requires") {
  PagePool pool = pool_of(5);
  CHECK(pool.reserve(1, Tokens{1}, {.required = 2, .wanted = 9})->pages.size() == 5);
}

TEST_CASE("page_pool: pages to be left to others are wanted in vain") {
  PagePool pool = pool_of(5);
  const PageDemand demand{.required = 2, .wanted = 9, .keep_free = 2};
  CHECK(pool.reserve(1, Tokens{1}, demand)->pages.size() == 3);
  CHECK_FALSE(pool.reserve(2, Tokens{1}, {.required = 1, .wanted = 1, .keep_free = 2}));
}

TEST_CASE("page_pool: a reservation that fails changes nothing") {
  PagePool pool = pool_of(3);
  run_and_release(pool, 1, {1, 2, 3, 4});
  CHECK_FALSE(pool.reserve(2, Tokens{1, 2, 3}, exactly(4)).has_value());
  CHECK(pool.num_reservations() == 0);
  check_counts(pool, 1, 2, 0);
}

TEST_CASE("page_pool: an extension counts new pages only") {
  PagePool pool = pool_of(5);
  pool.reserve(1, Tokens{1}, exactly(2));
  CHECK(pool.extend(1, {.required = 1, .wanted = 2})->size() == 2);
  CHECK_FALSE(pool.extend(1, exactly(2)).has_value());
  CHECK_FALSE(pool.extend(1, {.required = 1, .wanted = 1, .keep_free = 1}).has_value());
  check_counts(pool, 1, 0, 4);
}

TEST_CASE("page_pool: sequences that begin alike share the pages of the beginning") {
  PagePool pool = pool_of(8);
  const auto first = run(pool, 1, {1, 2, 3, 4, 5});
  const auto grant = pool.reserve(2, Tokens{1, 2, 3, 4, 6}, exactly(3));
  CHECK(grant->cached_tokens == 4);
  CHECK(grant->pages[0] == first[0]);
  CHECK(grant->pages[1] == first[1]);
  CHECK(grant->pages[2] != first[2]);
  check_counts(pool, 4, 0, 4);
}

TEST_CASE("page_pool: shared pages count for the demand") {
  PagePool pool = pool_of(3);
  run(pool, 1, {1, 2, 3, 4});
  CHECK(pool.reserve(2, Tokens{1, 2, 3, 4, 5}, exactly(3)).has_value());
}

TEST_CASE("page_pool: cached pages that are hit are not there to be taken as well") {
  PagePool pool = pool_of(3);
  run_and_release(pool, 1, {1, 2, 3, 4});
  CHECK_FALSE(pool.reserve(2, Tokens{1, 2, 3, 4, 5}, exactly(4)).has_value());
  CHECK(pool.reserve(2, Tokens{1, 2, 3, 4, 5}, exactly(3)).has_value());
}

TEST_CASE("page_pool: the last token is left to compute, though its page is known") {
  PagePool pool = pool_of(8);
  run_and_release(pool, 1, {1, 2, 3, 4});
  CHECK(cached_tokens(pool, {1, 2, 3, 4}) == 2);
  CHECK(cached_tokens(pool, {1, 2, 3, 4, 5}) == 4);
}

TEST_CASE("page_pool: a page is not shared before its KV is computed") {
  PagePool pool = pool_of(8);
  pool.reserve(1, Tokens{1, 2, 3}, exactly(2));
  CHECK(cached_tokens(pool, {1, 2, 3}) == 0);
  pool.commit(1, Tokens{1, 2});
  CHECK(cached_tokens(pool, {1, 2, 3}) == 2);
}

TEST_CASE("page_pool: equal tokens behind another beginning are not shared") {
  PagePool pool = pool_of(8);
  run_and_release(pool, 1, {1, 2, 3, 4, 5});
  CHECK(cached_tokens(pool, {9, 2, 3, 4, 5}) == 0);
  CHECK(cached_tokens(pool, {3, 4, 5}) == 0);
}

TEST_CASE("page_pool: released pages are cached if they are known, or free") {
  PagePool pool = pool_of(8);
  run(pool, 1, {1, 2, 3, 4, 5});
  pool.extend(1, exactly(2));
  pool.release(1);
  check_counts(pool, 6, 2, 0);
}

TEST_CASE("page_pool: a shared page runs until the last who holds it is gone") {
  PagePool pool = pool_of(8);
  run(pool, 1, {1, 2, 3});
  run(pool, 2, {1, 2, 4});
  pool.release(1);
  check_counts(pool, 6, 0, 2);
  pool.release(2);
  check_counts(pool, 7, 1, 0);
}

TEST_CASE("page_pool: free pages are taken before cached ones") {
  PagePool pool = pool_of(4);
  run_and_release(pool, 1, {1, 2, 3});
  pool.reserve(2, Tokens{9}, exactly(3));
  check_counts(pool, 0, 1, 3);
  CHECK(cached_tokens(pool, {1, 2, 3}) == 2);
}

TEST_CASE("page_pool: of the cached pages those used longest ago are evicted") {
  PagePool pool = pool_of(3);
  for (const std::int32_t token : {1, 2, 3}) run_and_release(pool, 1, {token, token});
  run_and_release(pool, 1, {1, 1, 5});
  pool.reserve(2, Tokens{9}, exactly(2));
  CHECK(cached_tokens(pool, {1, 1, 5}) == 2);
  CHECK(cached_tokens(pool, {2, 2, 5}) == 0);
  CHECK(cached_tokens(pool, {3, 3, 5}) == 0);
}

TEST_CASE("page_pool: the end of a chain is evicted before its beginning") {
  PagePool pool = pool_of(4);
  run_and_release(pool, 1, {1, 2, 3, 4, 5, 6, 7});
  pool.reserve(2, Tokens{9}, exactly(2));
  CHECK(cached_tokens(pool, {1, 2, 3, 4, 5, 6, 7}) == 4);
  pool.extend(2, exactly(1));
  CHECK(cached_tokens(pool, {1, 2, 3, 4, 5, 6, 7}) == 2);
}

TEST_CASE("page_pool: of a page that two computed at once one copy is kept") {
  PagePool pool = pool_of(8);
  pool.reserve(1, Tokens{1, 2, 3}, exactly(2));
  pool.reserve(2, Tokens{1, 2, 4}, exactly(2));
  pool.commit(1, Tokens{1, 2});
  pool.commit(2, Tokens{1, 2});
  check_counts(pool, 4, 0, 4);
  pool.release(1);
  pool.release(2);
  check_counts(pool, 7, 1, 0);
  CHECK(cached_tokens(pool, {1, 2, 3}) == 2);
}

TEST_CASE("page_pool: what follows a page that two computed at once is shared too") {
  PagePool pool = pool_of(8);
  pool.reserve(1, Tokens{1, 2, 3}, exactly(2));
  pool.reserve(2, Tokens{1, 2, 4, 5, 6}, exactly(3));
  pool.commit(1, Tokens{1, 2});
  pool.commit(2, Tokens{1, 2});
  pool.commit(2, Tokens{4, 5});
  CHECK(cached_tokens(pool, {1, 2, 4, 5, 6}) == 4);
}

TEST_CASE("page_pool: of a page that two computed at once the copy still held is shared on") {
  PagePool pool = pool_of(8);
  pool.reserve(1, Tokens{1, 2, 3}, exactly(2));
  const auto second = pool.reserve(2, Tokens{1, 2, 4}, exactly(2));
  pool.commit(1, Tokens{1, 2});
  pool.commit(2, Tokens{1, 2});
  pool.release(1);
  check_counts(pool, 6, 0, 2);
  CHECK(pool.reserve(3, Tokens{1, 2, 5}, {})->pages[0] == second->pages[0]);
}

TEST_CASE("page_pool: a page computed again makes its cached copy free") {
  PagePool pool = pool_of(8);
  pool.reserve(1, Tokens{1, 2, 3}, exactly(2));
  run_and_release(pool, 2, {1, 2, 4});
  check_counts(pool, 5, 1, 2);
  pool.commit(1, Tokens{1, 2});
  check_counts(pool, 6, 0, 2);
  CHECK(cached_tokens(pool, {1, 2, 3}) == 2);
}

TEST_CASE("page_pool: a page that two computed at once stays for what hangs on it") {
  PagePool pool = pool_of(4);
  pool.reserve(1, Tokens{1, 2}, exactly(1));
  pool.reserve(2, Tokens{1, 2, 4, 5, 6}, exactly(3));
  pool.commit(1, Tokens{1, 2});
  pool.commit(2, Tokens{1, 2});
  pool.release(1);
  pool.commit(2, Tokens{4, 5});
  pool.release(2);
  check_counts(pool, 2, 2, 0);
  pool.reserve(3, Tokens{9}, exactly(3));  // one page is evicted: not the beginning
  CHECK(cached_tokens(pool, {1, 2, 4, 5, 6}) == 2);
}

TEST_CASE("page_pool: without a prefix cache nothing is shared or kept") {
  PagePool pool = pool_of(4, false);
  run(pool, 1, {1, 2, 3});
  CHECK(cached_tokens(pool, {1, 2, 3}) == 0);
  pool.release(1);
  check_counts(pool, 4, 0, 0);
}

TEST_CASE("page_pool: reservations nobody knows are ignored") {
  PagePool pool = pool_of(4);
  pool.release(7);
  pool.commit(7, Tokens{1, 2});
  CHECK_FALSE(pool.extend(7, exactly(1)).has_value());
  run(pool, 1, {1, 2});
  pool.release(1);
  pool.release(1);
  check_counts(pool, 3, 1, 0);
}

TEST_CASE("page_pool: one sequence alone may have all the pages, cached ones included") {
  PagePool pool = pool_of(4);
  run_and_release(pool, 1, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(pool.reserve(2, Tokens{1, 2, 9}, exactly(4)).has_value());
  check_counts(pool, 0, 0, 4);
}

TEST_CASE("page_pool: two chains at one key do each other no harm") {
  PagePool pool({.num_pages = 4, .page_size = 2, .secret = {}, .hash_bits = 0});
  run(pool, 1, {1, 2, 3});
  run(pool, 2, {4, 5, 6});  // its page finds the key taken by a page in use
  CHECK(cached_tokens(pool, {4, 5, 6}) == 0);
  CHECK(cached_tokens(pool, {1, 2, 3}) == 2);
  pool.release(1);
  pool.release(2);
  run_and_release(pool, 3, {4, 5, 6});  // a page no longer in use gives way
  CHECK(cached_tokens(pool, {4, 5, 6}) == 2);
  CHECK(cached_tokens(pool, {1, 2, 3}) == 0);
  check_counts(pool, 3, 1, 0);
}

// Sequences that often begin alike, come, grow and go in a pool that is too
// small for them.
class RandomTraffic {
 public:
  RandomTraffic(std::uint64_t seed, const PagePoolOptions& options)
      : random_(seed), pool_(options), page_size_(options.page_size) {}

  void run(int num_events) {
    for (int i = 0; i < num_events && pool_.violation().empty(); ++i) step();
    while (!running_.empty() && pool_.violation().empty()) release(0);
  }

  const AuditedPool& pool() const { return pool_; }

 private:
  std::uint32_t pick(std::size_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  void step() {
    const std::uint32_t event = pick(10);
    if (running_.empty() || event < 2) return reserve();
    const std::size_t chosen = pick(running_.size());
    if (event < 4) {
      pool_.extend(running_[chosen], demand(3));
    } else if (event < 9) {
      pool_.commit(running_[chosen]);
    } else {
      release(chosen);
    }
  }

  void reserve() {
    Tokens tokens(1 + pick(8 * page_size_));
    for (auto& token : tokens) token = pick(8) == 0 ? 1 : 0;
    const std::size_t num_known = 1 + pick(tokens.size());
    if (pool_.reserve(++last_id_, std::move(tokens), num_known, demand(6)))
      running_.push_back(last_id_);
  }

  void release(std::size_t chosen) {
    pool_.release(running_[chosen]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }

  PageDemand demand(std::uint32_t most) {
    const std::uint32_t required = pick(most);
    return {.required = required, .wanted = required + pick(4), .keep_free = pick(3)};
  }

  std::mt19937_64 random_;
  AuditedPool pool_;
  std::uint32_t page_size_;
  std::vector<ReservationId> running_;
  ReservationId last_id_ = 0;
};

struct TrafficTotals {
  std::uint64_t num_hits = 0, num_evictions = 0;
};

TrafficTotals check_traffic(bool prefix_cache, unsigned hash_bits) {
  TrafficTotals totals;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const PagePoolOptions options{.num_pages = static_cast<std::uint32_t>(2 + seed % 20),
                                  .page_size = static_cast<std::uint32_t>(1 + seed % 3),
                                  .prefix_cache = prefix_cache,
                                  .secret = {.k0 = seed, .k1 = 0},
                                  .hash_bits = hash_bits};
    RandomTraffic traffic(seed, options);
    traffic.run(600);
    CAPTURE(seed);
    CHECK(traffic.pool().violation() == std::string());
    CHECK(traffic.pool().pool().counts().running == 0);
    if (hash_bits >= 128) CHECK(traffic.pool().pool().num_evicted() == traffic.pool().num_evictions());
    totals.num_hits += traffic.pool().num_hits();
    totals.num_evictions += traffic.pool().num_evictions();
  }
  return totals;
}

TEST_CASE("page_pool: under random traffic it does what the naive model does") {
  const TrafficTotals totals = check_traffic(true, 128);
  CHECK(totals.num_hits > 1000);
  CHECK(totals.num_evictions > 1000);
}

TEST_CASE("page_pool: keys of a few bits never bring anybody another's pages") {
  for (const unsigned hash_bits : {0u, 1u, 3u, 8u}) {
    CAPTURE(hash_bits);
    CHECK(check_traffic(true, hash_bits).num_hits > 100);
  }
}

TEST_CASE("page_pool: without a prefix cache the accounts are right under random traffic") {
  CHECK(check_traffic(false, 128).num_hits == 0);
}

}  // namespace
}  // namespace troupe
