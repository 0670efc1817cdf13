// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/cache_quotas.hpp"

#include <doctest/doctest.h>

#include <random>

#include "tests/policy/pages/played_cache.hpp"

namespace troupe {
namespace {

using namespace troupe::test;

constexpr TenantId kModest = 1, kGreedy = 2;

// Halves for both.
PlayedCache divided(PlayedOptions options) {
  PlayedCache played(std::move(options));
  played.quotas = {{kModest, 1}, {kGreedy, 2}};
  for (const QuotaId quota : {1U, 2U}) played.cache.set_quota({.id = quota, .share = 0.5});
  return played;
}

Tokens some_tokens(std::mt19937_64& random, std::size_t most) {
  Tokens tokens(1 + random() % most);
  for (auto& token : tokens) token = static_cast<std::int32_t>(100 + random() % 3);
  tokens.front() = static_cast<std::int32_t>(random() % 10000);
  return tokens;
}

std::uint32_t num_known(const PlayedCache& played, TenantId tenant, const Tokens& tokens) {
  const KnownTokens known = played.cache.search().affinity(tenant, tokens).of(0);
  return known.on_device + known.on_host + known.on_disk;
}

TEST_CASE("cache quotas: a part is counted with the page that is to come, without one there is no bound") {
  CacheQuotas quotas;
  quotas.set({.id = 1, .share = 0.5});
  quotas.set({.id = 2});
  QuotaCounts counts;
  for (int i = 0; i < 4; ++i) counts.add(1);
  for (int i = 0; i < 9; ++i) counts.add(2);
  CHECK(quotas.over(counts, 8, 2).is_empty());
  CHECK(quotas.over(counts, 8, 1).has(1));
  CHECK(quotas.over(counts, 7, 2).has(1));
  CHECK_FALSE(quotas.over(counts, 7, 2).has(2));
  counts.remove(1);
  CHECK(quotas.over(counts, 8, 1).is_empty());
}

TEST_CASE("cache quotas: value decides among those within their parts and among those beyond") {
  QuotasOver over;
  over.add(2);
  const PageClaim dear{.quota = 1, .value = 9}, cheap{.quota = 1, .value = 1};
  const PageClaim dear_over{.quota = 2, .value = 9}, cheap_over{.quota = 2, .value = 1};
  CHECK(gives_way(cheap, dear, over));
  CHECK_FALSE(gives_way(dear, cheap, over));
  CHECK(gives_way(cheap_over, dear_over, over));
  CHECK_FALSE(gives_way(dear_over, cheap_over, over));
  CHECK(gives_way(dear_over, cheap, over));
  CHECK_FALSE(gives_way(cheap, dear_over, over));
}

TEST_CASE("cache quotas: a tenant alone may fill the device, and gives way when another comes") {
  PlayedCache played = divided(options_of(8));
  played.run(1, {1, 2, 3, 4, 5, 6, 7, 8}, 0, kGreedy);
  played.run(2, {11, 12, 13, 14, 15, 16, 17, 18}, 1, kGreedy);
  CHECK(played.cache.counts().free == 0);
  played.run(3, {1, 2, 3, 4, 5, 6, 7, 8}, 2, kModest);
  played.run(4, {21, 22, 23, 24, 25, 26, 27, 28}, 3, kGreedy);
  CHECK(num_known(played, kModest, {1, 2, 3, 4, 5, 6, 7, 8, 9}) == 8);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("cache quotas: pages of earlier processes are their tenant's when it uses them") {
  PlayedCache played = divided(options_of(4, 4, 8));
  const Tokens turn = {1, 2, 3, 4, 5};
  played.run(1, turn, 0, kModest);
  played.write_all(1);
  played.restart(2);
  for (const QuotaId quota : {1U, 2U}) played.cache.set_quota({.id = quota, .share = 0.5});
  CHECK(played.fetch(turn, 3, kModest) > 0);
  played.finish_transfers(3);
  played.run(2, turn, 4, kModest);
  CHECK(played.cache.is_consistent());
}

// A reload gives the tenant a share between two leases of the same prompt, whose pages are on the host and
// computed again, as loading is dear.
TEST_CASE("cache quotas: a page of a lease from before its tenant had a share counts as the lease's") {
  PlayedOptions options = options_of(4, 4);
  options.num_workers = 2;
  options.serving.copy_ahead_below = 1.0;
  options.load_from_host = {.fixed = 0.0, .per_page = 1000.0};
  PlayedCache played(std::move(options));
  const Tokens turn = {1, 2, 3, 4, 5};
  played.run(1, turn, 0, kModest);
  played.copy_ahead(4, 1);
  played.replace_worker(4);
  const auto before = played.reserve(2, turn, 2, kModest);
  REQUIRE(before->holes == std::vector<TokenRange>{{.begin = 0, .end = 4}});
  played.quotas[kModest] = 1;
  played.cache.set_quota({.id = 1, .share = 0.5});
  REQUIRE(played.reserve(3, turn, 3, kModest, 1)->holes.size() == 1);
  while (played.compute(2, 4)) CHECK(played.cache.is_consistent());
  played.release(2, 5);
  CHECK(played.cache.is_consistent());
  played.run(4, {11, 12, 13, 14, 15, 16, 17, 18}, 6, kGreedy);  // takes all pages of the device
  CHECK(played.cache.is_consistent());
  played.release(3, 7);
  CHECK(played.cache.is_consistent());
}

// The greedy one's prompts are within its part; nothing else bounds it.
TEST_CASE("cache quotas: whatever one tenant asks for, another within its part loses nothing") {
  int num_lost_without = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const auto num_device_pages = static_cast<std::uint32_t>(4 + 2 * (seed % 4));
    const auto num_host_pages = static_cast<std::uint32_t>(seed % 3 * 8);
    const std::uint32_t num_disk_pages = seed % 2 == 1 && num_host_pages > 0 ? 12 : 0;
    for (const bool is_divided : {true, false}) {
      PlayedOptions options = options_of(num_device_pages, num_host_pages, num_disk_pages);
      PlayedCache played = is_divided ? divided(std::move(options)) : PlayedCache(std::move(options));
      std::mt19937_64 random(seed);
      Tokens kept(num_device_pages / 2 * kPageSize);
      for (auto& token : kept) token = static_cast<std::int32_t>(random() % 3);
      LeaseId lease = 0;
      played.run(++lease, kept, 0, kModest);
      Tokens next_turn = kept;
      next_turn.push_back(7);
      for (int second = 1; second < 60; ++second) {
        const Tokens prompt = some_tokens(random, kept.size());
        if (random() % 3 == 0 && played.fetch(prompt, second, kGreedy) > 0) played.finish_transfers(second);
        played.run(++lease, prompt, second, kGreedy);
        if (random() % 3 == 0) played.copy_ahead(4, second);
        if (random() % 3 == 0) {
          played.write_behind(4, second);
          played.finish_device_work();
          played.finish_transfers(second);
        }
        if (second % 8 == 0) REQUIRE(played.cache.is_consistent());
      }
      const std::uint32_t num_left = num_known(played, kModest, next_turn);
      if (is_divided) REQUIRE(num_left == kept.size());
      if (!is_divided && num_left < kept.size()) num_lost_without += 1;
    }
  }
  CHECK(num_lost_without > 20);  // the traffic is one that pushes pages out
}

TEST_CASE("cache quotas: a disk that gets smaller loses pages of a tenant beyond its part first") {
  PlayedCache played = divided(options_of(4, 4, 8));
  played.run(1, {1, 2, 3, 4}, 0, kModest);
  played.write_all(1);
  played.run(2, {11, 12, 13, 14, 15, 16, 17, 18}, 2, kGreedy);
  played.write_all(3);
  played.run(3, {21, 22, 23, 24, 25, 26, 27, 28}, 4, kGreedy);
  played.write_all(5);
  played.cache.disk().give_up_pages(2, at(6));
  CHECK(num_known(played, kModest, {1, 2, 3, 4, 5}) == 4);
  CHECK(played.cache.is_consistent());
}

// By a tenant that has more than its part of a device the host keeps what fits into its part there.
TEST_CASE("cache quotas: what leaves the device stays on the host within its part") {
  PlayedCache played = divided(options_of(4, 12));
  const Tokens long_turn = {1, 2, 3, 4, 5, 6, 7, 8};  // all four device pages
  played.run(1, long_turn, 0, kModest);
  for (int second = 1; second < 40; ++second)
    played.run(static_cast<LeaseId>(1 + second),
               {second * 10, second * 10 + 1, second * 10 + 2, second * 10 + 3}, second, kGreedy);
  CHECK(num_known(played, kModest, {1, 2, 3, 4, 5, 6, 7, 8, 9}) == 8);
  CHECK(played.cache.is_consistent());
}

}  // namespace
}  // namespace troupe
