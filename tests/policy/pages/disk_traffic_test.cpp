// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/disk_traffic.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "tests/policy/pages/played_cache.hpp"

namespace troupe {
namespace disk_traffic_test {
namespace {

using namespace troupe::test;

const Tokens kTurn{1, 2, 3, 4, 5, 6, 7};  // three full pages

TEST_CASE("disk pages: what is written is fetched by the next process, and found") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_all();
  CHECK(played.cache.statistics().written == 3);
  CHECK(played.cache.counts().disk_free == 5);
  played.restart();
  CHECK(played.cache.counts().disk_free == 5);
  CHECK(played.fetch(kTurn) == 3);
  CHECK(played.cache.is_consistent());
  played.finish_transfers();
  const auto grant = played.reserve(2, kTurn);
  CHECK(grant->known_tokens == 6);
  CHECK(grant->tokens_from_host == 6);
  played.finish_device_work();
  CHECK(played.cache.is_consistent());
}

TEST_CASE("disk pages: what is nearer is not fetched") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_all();
  CHECK(played.fetch(kTurn) == 0);
  played.replace_worker(8);
  CHECK(played.fetch(kTurn) == 0);
}

TEST_CASE("disk pages: a sequence that does not wait computes what is being fetched") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_all();
  played.restart();
  REQUIRE(played.fetch(kTurn) == 3);
  const auto grant = played.reserve(2, kTurn);
  CHECK(grant->holes == std::vector<TokenRange>{{.begin = 0, .end = 6}});
  while (played.compute(2)) {
  }
  played.finish_transfers();
  CHECK(played.cache.is_consistent());
  played.release(2);
  CHECK(played.reserve(3, kTurn)->tokens_from_device == 6);
}

TEST_CASE("disk pages: two who want the same wait for one read") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_all();
  played.restart();
  CHECK(played.fetch(kTurn) == 3);
  CHECK(played.fetch(kTurn) == 3);
  CHECK(played.num_transfers() == 3);
}

TEST_CASE("disk pages: with room for some on the host, the end is fetched") {
  PlayedCache played(options_of(8, 2, 8));
  played.run(1, kTurn);
  played.write_all();
  played.run(2, {9, 9, 9}, 1);
  played.write_all(1);
  played.run(3, kTurn, 2);
  played.write_all(2);
  played.restart();
  CHECK(played.fetch(kTurn) == 2);
  played.finish_transfers();
  CHECK(played.reserve(4, kTurn)->holes == std::vector<TokenRange>{{.begin = 0, .end = 2}});
}

TEST_CASE("disk pages: a page that is damaged is a hole, and nothing else is lost") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_all();
  played.restart();
  REQUIRE(played.fetch(kTurn) == 3);
  played.damage_disk(1);
  played.finish_transfers();
  CHECK(played.cache.statistics().damaged_on_disk == 1);
  CHECK(played.cache.counts().disk_free == 6);
  const auto grant = played.reserve(2, kTurn);
  REQUIRE(grant->holes.size() == 1);
  CHECK(grant->holes[0].size() == 2);
  CHECK(grant->tokens_from_host == 4);
  while (played.compute(2)) {
  }
  played.release(2);
  played.write_all();
  CHECK(played.cache.counts().disk_free == 5);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("disk pages: where the file may not grow, a page of less value makes way in its place") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, {1, 2, 3});
  played.write_all();
  played.run(2, {7, 8, 9}, 5);
  played.write_behind(4, 5);
  played.finish_device_work();
  played.write_behind(4, 5);
  REQUIRE(played.num_transfers() == 1);
  CHECK(played.transfer(0).disk_page == 1);
  played.finish_transfer(0, true, 5, TransferOutcome::kNoRoom);
  CHECK(played.cache.is_consistent());
  CHECK(played.cache.counts().disk_free == 7);
  played.write_behind(4, 5);
  REQUIRE(played.num_transfers() == 1);
  CHECK(played.transfer(0).disk_page == 0);
  played.finish_transfers(5);
  CHECK(played.cache.counts().disk_free == 7);
  CHECK(played.cache.statistics().dropped_from_disk == 1);
  // With room again all of them are there.
  played.cache.disk().may_grow();
  played.run(3, {4, 5, 6}, 6);
  played.write_all(6);
  CHECK(played.cache.counts().disk_free == 5);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("disk pages: given up, they go from the ends of conversations and do not come back") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_all();
  played.cache.disk().give_up_pages(2, at(1));
  played.queue_transfers();
  CHECK(played.cache.counts().disk_free == 7);
  CHECK(played.cache.is_consistent());
  played.run(2, {8, 8, 8}, 1);
  played.write_all(1);
  CHECK(played.cache.counts().disk_free == 7);
  played.cache.disk().give_up_pages(100, at(1));
  played.queue_transfers();
  CHECK(played.cache.counts().disk_free == 8);
  played.run(3, {9, 9, 9}, 2);
  played.write_all(2);
  CHECK(played.cache.counts().disk_free == 8);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("disk pages: a read that fails, and a write that fails, leave nothing held") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_behind(4);
  played.finish_device_work();
  played.write_behind(4);
  REQUIRE(played.num_transfers() == 3);
  while (played.num_transfers() > 0) played.finish_transfer(0, true);
  CHECK(played.cache.counts().disk_free == 8);
  CHECK(played.cache.is_consistent());
  played.write_all();
  played.restart();
  REQUIRE(played.fetch(kTurn) == 3);
  while (played.num_transfers() > 0) played.finish_transfer(0, true);
  CHECK(played.cache.counts().host_free == 8);
  CHECK(played.cache.counts().disk_free == 8);
  CHECK(played.cache.num_nodes() == 0);
}

TEST_CASE("disk pages: conversations go from their end when there is no room") {
  PlayedCache played(options_of(8, 8, 4));
  played.run(1, kTurn, 0);
  played.write_all(1);
  played.run(2, {9, 9, 9, 9, 9}, 2);
  played.write_all(3);
  CHECK(played.cache.statistics().dropped_from_disk == 1);
  played.restart(4);
  CHECK(played.fetch(kTurn, 4) == 2);
  CHECK(played.fetch({9, 9, 9, 9, 9}, 4) == 2);
}

TEST_CASE("disk pages: a conversation is written in order, its pages one behind the other") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_behind(8);
  played.finish_device_work();
  played.write_behind(8);
  REQUIRE(played.num_transfers() == 3);
  for (std::size_t depth = 0; depth < 3; ++depth) CHECK(played.transfer(depth).identity.depth == depth);
}

TEST_CASE("disk pages: what a sequence has computed is written while it runs") {
  PlayedCache played(options_of(8, 8, 8));
  REQUIRE(played.reserve(1, kTurn).has_value());
  played.compute(1);
  played.compute(1);
  played.write_all();
  CHECK(played.cache.statistics().written == 2);
  CHECK(played.cache.is_consistent());
  played.restart();
  CHECK(played.fetch(kTurn) == 2);
}

TEST_CASE("disk pages: of a running sequence the page of more use takes an older one's place") {
  PlayedCache played(options_of(8, 8, 3));
  played.run(1, {9, 9, 9, 9, 9}, 0);
  played.write_all(0);
  REQUIRE(played.reserve(2, kTurn, 100).has_value());
  while (played.compute(2, 100)) {
  }
  played.write_all(101);
  CHECK(played.cache.statistics().dropped_from_disk == 2);
  played.restart(101);
  CHECK(played.fetch(kTurn, 101) == 3);
}

TEST_CASE("disk pages: a page whose write failed is written again, those behind it are kept") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_behind(8);
  played.finish_device_work();
  played.write_behind(8);
  REQUIRE(played.num_transfers() == 3);
  played.finish_transfer(0, true);
  played.finish_transfers();
  CHECK(played.cache.counts().disk_free == 6);
  CHECK(played.cache.is_consistent());

  SUBCASE("so the next process finds all of them") {
    played.write_all();
    played.restart();
    CHECK(played.fetch(kTurn) == 3);
  }
  SUBCASE("but not by a process that comes before") {
    played.restart();
    CHECK(played.fetch(kTurn) == 0);
    CHECK(played.cache.counts().disk_free == 8);
  }
}

TEST_CASE("disk pages: a front that many share is no reason to leave what follows it for good") {
  constexpr std::int32_t kNumConversations = 12, kNumPages = 12;
  PlayedCache played(options_of(200, 200, 200));
  for (std::int32_t i = 0; i < kNumConversations; ++i) {
    Tokens tokens{1, 2};
    for (std::int32_t page = 0; page < kNumPages; ++page) tokens.insert(tokens.end(), {i, page});
    tokens.push_back(0);
    played.run(static_cast<LeaseId>(i), tokens);
  }
  played.write_all();
  CHECK(played.cache.statistics().written == 1 + kNumConversations * kNumPages);
}

TEST_CASE("disk pages: a page is not written before the one in front of it") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.cache.disk().copy_behind(0, 9, at(0));
  for (const PageCopy& copy : played.cache.host().take_copies(0))
    if (copy.device_page != 0) played.cache.host().copies_done(0, {&copy, 1});
  played.cache.disk().write_behind(9, at(0));
  std::vector<std::uint32_t> depths;
  for (const DiskTransfer& transfer : played.cache.disk().take_transfers())
    depths.push_back(transfer.identity.depth);
  CHECK(depths.empty());
}

TEST_CASE("disk pages: a file that says what can't be is not believed") {
  PageCache cache(options_of(4, 4, 4));
  cache.add_worker(0, 4);
  const auto stored = [](std::uint32_t disk_page, PageIdentity identity) {
    return StoredPage{.disk_page = disk_page, .identity = std::move(identity), .age = {}};
  };
  std::vector<StoredPage> pages;
  pages.push_back(stored(0, {.tenant = 1, .generation = 5, .depth = 0, .tokens = {1, 2}}));
  // unknown parent, another tenant's parent, wrong depth, twice the same
  // generation, twice the same tokens, no tokens, beyond the end, no generation
  pages.push_back(
      stored(1, {.tenant = 1, .generation = 6, .parent_generation = 4, .depth = 1, .tokens = {1, 2}}));
  pages.push_back(
      stored(1, {.tenant = 2, .generation = 7, .parent_generation = 5, .depth = 1, .tokens = {1, 2}}));
  pages.push_back(
      stored(1, {.tenant = 1, .generation = 8, .parent_generation = 5, .depth = 2, .tokens = {1, 2}}));
  pages.push_back(stored(1, {.tenant = 1, .generation = 5, .depth = 0, .tokens = {3, 4}}));
  pages.push_back(stored(1, {.tenant = 1, .generation = 9, .depth = 0, .tokens = {1, 2}}));
  pages.push_back(stored(1, {.tenant = 1, .generation = 10, .depth = 0, .tokens = {}}));
  pages.push_back(stored(4, {.tenant = 1, .generation = 11, .depth = 0, .tokens = {3, 4}}));
  pages.push_back(stored(1, {.tenant = 1, .generation = 0, .depth = 0, .tokens = {3, 4}}));
  pages.push_back(stored(1, {.tenant = 1, .generation = UINT64_MAX, .depth = 0, .tokens = {3, 4}}));
  pages.push_back(
      stored(1, {.tenant = 1, .generation = 12, .parent_generation = 5, .depth = 0, .tokens = {3, 4}}));
  cache.disk().restore(std::move(pages), at(0));
  CHECK(cache.num_nodes() == 1);
  CHECK(cache.counts().disk_free == 3);
  CHECK(cache.is_consistent());
  CHECK(cache.disk().fetch(0, 1, Tokens{1, 2, 3}, at(0)) == std::vector<std::uint64_t>{5});
}

TEST_CASE("disk pages: a conversation that is closed is in no tier any more, what is shared is") {
  PlayedCache played(options_of(12, 12, 12));
  const Tokens other{1, 2, 3, 4, 9, 9, 9};  // shares two pages
  played.run(1, kTurn);
  played.run(2, other);
  played.write_all();
  played.cache.disposal().forget(kTenant, kTurn);
  CHECK(played.cache.statistics().forgotten == 1);
  CHECK(played.cache.is_consistent());
  played.cache.disposal().forget(kTenant, other);
  CHECK(played.cache.num_nodes() == 0);
  CHECK(played.cache.counts().disk_free == 12);
  CHECK(played.cache.counts().host_free == 12);
  CHECK(played.cache.counts().free == 12);
  played.write_behind(4);  // erases
  played.restart();
  CHECK(played.cache.num_nodes() == 0);
}

TEST_CASE("disk pages: of a conversation that is closed, the turns before may stay") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_all();
  played.cache.disposal().forget(kTenant, kTurn, 3);  // the second page has the third token
  CHECK(played.cache.statistics().forgotten == 1);
  CHECK(played.cache.num_nodes() == 2);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("disk pages: what was not used for long expires from its end, what is used stays") {
  PlayedCache played(options_of(12, 12, 12));
  played.run(1, kTurn, 0);
  played.run(2, {9, 9, 9}, 10);
  played.write_all(11);
  REQUIRE(played.reserve(3, {1, 2, 3}, 12).has_value());  // holds the first page
  played.cache.disposal().expire(at(11), 100);
  CHECK(played.cache.statistics().expired == 3);
  CHECK(played.cache.num_nodes() == 1);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("disk pages: contents that were void are gone from the disk too, also in mid-transfer") {
  PlayedCache played(options_of(8, 8, 8));
  played.run(1, {1, 2, 3});
  played.cache.disk().copy_behind(0, 1, at(0));
  const auto copies = played.cache.host().take_copies(0);
  REQUIRE(copies.size() == 1);
  played.cache.host().copies_done(0, copies);
  played.cache.disk().write_behind(1, at(0));
  const auto transfers = played.cache.disk().take_transfers();
  REQUIRE(transfers.size() == 1);
  played.cache.disposal().void_contents(copies[0].generation);
  CHECK(played.cache.is_consistent());
  CHECK(played.cache.num_nodes() == 0);
  CHECK(played.cache.counts().host_free == 7);  // the transfer still reads it
  played.cache.disk().transfer_done(transfers[0], TransferOutcome::kDone, at(1));
  CHECK(played.cache.is_consistent());
  CHECK(played.cache.counts().host_free == 8);
  CHECK(played.cache.counts().disk_free == 8);
  REQUIRE(played.cache.disk().take_transfers().size() == 1);  // and the file forgets it
}

TEST_CASE("disk pages: a load that is dearer than its page is not made") {
  auto options = options_of(8, 8, 8);
  options.load_from_host = {.fixed = 0.0, .per_page = 2.5};
  PlayedCache played(options);
  played.run(1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});  // costs 1.5, 2, 3, 3, 3.5 …
  played.cache.disk().copy_behind(0, 8, at(0));
  for (const PageCopy& copy : played.cache.host().take_copies(0))
    played.cache.host().copies_done(0, {&copy, 1});
  played.replace_worker(8);
  const auto grant = played.cache.leases().reserve(0, 2, kTenant, Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
                                                   exactly(6), at(1));
  REQUIRE(grant.has_value());
  REQUIRE(grant->holes.size() == 1);
  CHECK(grant->holes[0].begin == 0);
  CHECK(grant->tokens_from_host + grant->holes[0].size() == 10);
  CHECK(grant->tokens_from_host > 0);
}

struct Traffic {
  EvictionPolicy policy = EvictionPolicy::kValue;
  std::uint32_t num_host_pages = 16;
  std::uint32_t num_disk_pages = 24;
  bool has_load_costs = false;
};

// Conversations that grow, branch, end and come back; devices that die, disks
// that fail, pages that rot, processes that are killed.
void play_randomly(const Traffic& traffic, std::uint64_t seed) {
  auto options = options_of(24, traffic.num_host_pages, traffic.num_disk_pages);
  options.serving.cache_policy = traffic.policy;
  options.serving.copy_ahead_below = 0.3;
  if (traffic.has_load_costs) {
    options.load_from_host = {.fixed = 0.5, .per_page = 1.0};
    options.load_from_disk = {.fixed = 1.0, .per_page = 1.5};
  }
  PlayedCache played(options);
  std::mt19937_64 random(seed);
  std::vector<Tokens> histories(12);
  LeaseId last = 0;
  const auto any_sequence = [&] {
    auto chosen = played.sequences().begin();
    std::advance(chosen, random() % played.sequences().size());
    return chosen->first;
  };
  for (int step = 0; step < 800; ++step) {
    Tokens& history = histories[random() % histories.size()];
    const TenantId tenant = random() % 4 == 0 ? 2 : 1;
    switch (random() % 14) {
      case 0:
      case 1:
      case 2:
        if (history.size() > 20) history.clear();
        if (history.empty() && random() % 2 == 0) history = histories[random() % histories.size()];
        for (std::uint64_t i = random() % 5 + 1; i > 0; --i)
          history.push_back(static_cast<std::int32_t>(random() % 3));
        if (random() % 2 == 0) played.fetch(history, step, tenant);
        if (random() % 3 != 0) played.reserve(++last, history, step, tenant);
        break;
      case 3: played.copy_ahead(static_cast<std::uint32_t>(random() % 4), step); break;
      case 4: played.write_behind(static_cast<std::uint32_t>(random() % 6), step); break;
      case 5:
        if (!played.sequences().empty()) played.release(any_sequence(), step);
        break;
      case 6: played.finish_device_work(); break;
      case 7:
      case 8:
      case 9:
        if (played.num_transfers() > 0)
          played.finish_transfer(random() % played.num_transfers(), random() % 10 == 0, step);
        break;
      case 10:
        if (random() % 20 == 0) played.replace_worker(24, 0, random() % 2 == 0);
        if (random() % 30 == 0) played.restart(step);
        if (random() % 4 == 0) played.damage_disk(random() % traffic.num_disk_pages);
        break;
      case 11:
        if (random() % 4 == 0) played.cache.disposal().forget(tenant, history);
        if (random() % 30 == 0) played.cache.disposal().expire(at(step - 100), 5);
        break;
      default:
        if (!played.sequences().empty()) played.compute(any_sequence());
    }
    REQUIRE(played.cache.is_consistent());
  }
  while (!played.sequences().empty()) played.release(played.sequences().begin()->first, 801);
  played.finish_device_work();
  played.finish_transfers(801);
  REQUIRE(played.cache.is_consistent());
  REQUIRE(played.cache.counts().running == 0);
}

TEST_CASE("disk pages: under random traffic every page holds what it is said to") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    play_randomly({}, seed);
    play_randomly({.policy = EvictionPolicy::kLru}, seed);
    play_randomly({.num_host_pages = 3, .num_disk_pages = 9}, seed);
    play_randomly({.num_host_pages = 16, .num_disk_pages = 200}, seed);
    play_randomly({.has_load_costs = true}, seed);
  }
}

}  // namespace
}  // namespace disk_traffic_test
}  // namespace troupe
