// SPDX-License-Identifier: Apache-2.0
#include "policy/page_pool.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <vector>

namespace troupe {
namespace {

using Tokens = std::vector<std::int32_t>;

PagePool small_pool(std::uint32_t num_pages = 8, unsigned hash_bits = 128) {
  return PagePool({.num_pages = num_pages,
                   .page_size = 2,
                   .prefix_cache = true,
                   .secret = {.k0 = 1, .k1 = 2},
                   .hash_bits = hash_bits});
}

PageDemand exactly(std::uint32_t pages) { return {.required = pages, .wanted = pages}; }

// As a sequence that ran to its end leaves it.
void run_to_end(PagePool& pool, ReservationId id, const Tokens& tokens) {
  const auto pages = static_cast<std::uint32_t>((tokens.size() + 1) / 2);
  const auto grant = pool.reserve(id, tokens, exactly(pages));
  REQUIRE(grant);
  for (std::size_t i = grant->cached_tokens; i + 2 <= tokens.size(); i += 2)
    pool.commit(id, std::span(tokens).subspan(i, 2));
  pool.release(id);
}

TEST_CASE("pages: what is released is free again, what was committed is cached") {
  PagePool pool = small_pool();
  const Tokens tokens{1, 2, 3, 4, 5};
  REQUIRE(pool.reserve(1, tokens, exactly(3)));
  CHECK(pool.counts().running == 3);
  pool.commit(1, std::span(tokens).subspan(0, 2));
  pool.release(1);
  CHECK(pool.counts().cached == 1);
  CHECK(pool.counts().free == 7);
  CHECK(pool.is_consistent());
}

TEST_CASE("pages: the longest known beginning is shared, page by page") {
  PagePool pool = small_pool();
  run_to_end(pool, 1, {1, 2, 3, 4, 5, 6});
  const Tokens other{1, 2, 3, 4, 9, 9, 9};
  const auto grant = pool.reserve(2, other, exactly(4));
  REQUIRE(grant);
  CHECK(grant->cached_tokens == 4);
  CHECK(grant->pages.size() == 4);
  const auto again = pool.reserve(3, other, exactly(4));
  REQUIRE(again);
  CHECK(again->pages[0] == grant->pages[0]);
  CHECK(again->pages[1] == grant->pages[1]);
  CHECK(again->pages[2] != grant->pages[2]);
  CHECK(pool.is_consistent());
}

TEST_CASE("pages: the last token is always left to compute") {
  PagePool pool = small_pool();
  run_to_end(pool, 1, {1, 2, 3, 4});
  const Tokens same{1, 2, 3, 4};
  CHECK(pool.reserve(2, same, exactly(2))->cached_tokens == 2);
}

TEST_CASE("pages: the same page below another parent is not a hit") {
  PagePool pool = small_pool();
  run_to_end(pool, 1, {1, 2, 7, 8, 0});
  const Tokens other{3, 4, 7, 8, 0};
  CHECK(pool.reserve(2, other, exactly(3))->cached_tokens == 0);
}

TEST_CASE("pages: the least recently used chain goes first, from its deep end") {
  PagePool pool = small_pool(4);
  run_to_end(pool, 1, {1, 1, 2, 2});
  run_to_end(pool, 2, {3, 3, 4, 4});
  const Tokens large{9, 9, 9, 9, 9};
  REQUIRE(pool.reserve(3, large, exactly(1)));  // evicts {2, 2}
  const Tokens first{1, 1, 2, 2, 0}, second{3, 3, 4, 4, 0};
  CHECK(pool.reserve(4, first, exactly(1))->cached_tokens == 2);
  CHECK(pool.reserve(5, second, exactly(2))->cached_tokens == 4);
}

TEST_CASE("pages: a refusal changes nothing, keep_free is kept") {
  PagePool pool = small_pool(4);
  const Tokens tokens{1, 2, 3, 4, 5, 6};
  CHECK_FALSE(pool.reserve(1, tokens, {.required = 3, .wanted = 3, .keep_free = 2}));
  CHECK(pool.counts().free == 4);
  const auto grant = pool.reserve(1, tokens, {.required = 2, .wanted = 9, .keep_free = 1});
  REQUIRE(grant);
  CHECK(grant->pages.size() == 3);
  CHECK_FALSE(pool.extend(1, exactly(2)));
  CHECK(pool.extend(1, {.required = 0, .wanted = 5})->size() == 1);
  CHECK(pool.extend(1, {.required = 0, .wanted = 5})->empty());
  CHECK(pool.is_consistent());
}

TEST_CASE("pages: unknown reservations are ignored") {
  PagePool pool = small_pool();
  pool.release(7);
  CHECK_FALSE(pool.extend(7, exactly(1)));
  pool.commit(7, Tokens{1, 2});
  CHECK(pool.counts().free == 8);
}

TEST_CASE("pages: without a prefix cache everything is free after release") {
  PagePool pool({.num_pages = 4, .page_size = 2, .prefix_cache = false, .secret = {}});
  run_to_end(pool, 1, {1, 2, 3, 4});
  CHECK(pool.counts().free == 4);
  const Tokens same{1, 2, 3, 4};
  CHECK(pool.reserve(2, same, exactly(2))->cached_tokens == 0);
}

TEST_CASE("pages: two who compute the same share the first one's pages later") {
  PagePool pool = small_pool();
  const Tokens tokens{1, 2, 3, 4, 5};
  const auto first = pool.reserve(1, tokens, exactly(3));
  REQUIRE(pool.reserve(2, tokens, exactly(3)));
  for (const std::size_t at : {0, 2})
    for (const ReservationId id : {1, 2}) pool.commit(id, std::span(tokens).subspan(at, 2));
  const auto third = pool.reserve(3, tokens, exactly(1));
  CHECK(third->cached_tokens == 4);
  CHECK(third->pages[0] == first->pages[0]);
  for (const ReservationId id : {1, 2, 3}) pool.release(id);
  CHECK(pool.counts().cached == 2);
  CHECK(pool.is_consistent());
}

// Against a model that remembers what was written to each page: whatever is
// done, in whatever order, with however bad a hash, a page that is handed out
// as known holds just the tokens it is said to hold, and everything before it.
void run_random_traffic(std::uint64_t seed, unsigned hash_bits) {
  std::mt19937_64 random(seed);
  const std::uint32_t num_pages = 4 + static_cast<std::uint32_t>(random() % 20);
  PagePool pool = small_pool(num_pages, hash_bits);
  std::vector<Tokens> written(num_pages);  // the whole beginning up to the page's end
  struct Running {
    Tokens tokens;
    std::vector<std::uint32_t> pages;
    std::size_t num_computed = 0;
  };
  std::map<ReservationId, Running> running;
  ReservationId last_id = 0;

  for (int step = 0; step < 200; ++step) {
    if (random() % 2 == 0 || running.empty()) {
      Running newcomer;
      newcomer.tokens.resize(1 + random() % 12);
      for (auto& token : newcomer.tokens) token = static_cast<std::int32_t>(random() % 2);
      const auto needed = static_cast<std::uint32_t>((newcomer.tokens.size() + 1) / 2);
      const auto grant = pool.reserve(++last_id, newcomer.tokens,
                                      {.required = needed,
                                       .wanted = needed + static_cast<std::uint32_t>(random() % 2),
                                       .keep_free = static_cast<std::uint32_t>(random() % 2)});
      if (!grant) continue;
      newcomer.pages = grant->pages;
      newcomer.num_computed = grant->cached_tokens;
      REQUIRE(grant->cached_tokens < newcomer.tokens.size());
      for (std::size_t i = 0; i < grant->cached_tokens / 2; ++i)
        REQUIRE(written[grant->pages[i]] ==
                Tokens(newcomer.tokens.begin(), newcomer.tokens.begin() + 2 * (i + 1)));
      running.emplace(last_id, std::move(newcomer));
    } else {
      auto chosen = std::next(running.begin(), static_cast<long>(random() % running.size()));
      auto& [id, sequence] = *chosen;
      if (random() % 4 == 0) {
        pool.release(id);
        running.erase(chosen);
      } else if (sequence.num_computed + 2 <= sequence.tokens.size()) {
        const std::size_t at = sequence.num_computed;
        written[sequence.pages[at / 2]] =
            Tokens(sequence.tokens.begin(), sequence.tokens.begin() + static_cast<long>(at) + 2);
        pool.commit(id, std::span(sequence.tokens).subspan(at, 2));
        sequence.num_computed += 2;
      } else {
        const auto more = pool.extend(id, exactly(1));
        if (!more) continue;
        sequence.pages.push_back(more->front());
        sequence.tokens.push_back(static_cast<std::int32_t>(random() % 2));
        sequence.tokens.push_back(static_cast<std::int32_t>(random() % 2));
      }
    }
    REQUIRE(pool.is_consistent());
    const PageCounts counts = pool.counts();
    REQUIRE(counts.free + counts.cached + counts.running == counts.total);
  }
  for (const auto& [id, sequence] : running) pool.release(id);
  REQUIRE(pool.counts().running == 0);
}

TEST_CASE("pages: random traffic, right whatever the hash is worth") {
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    for (const unsigned hash_bits : {128U, 8U, 2U, 0U}) run_random_traffic(seed, hash_bits);
}

}  // namespace
}  // namespace troupe
