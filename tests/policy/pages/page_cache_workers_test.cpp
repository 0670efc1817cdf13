// SPDX-License-Identifier: Apache-2.0
// Several workers over one host and one disk.
#include "policy/pages/page_cache.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "tests/policy/pages/played_cache.hpp"

namespace troupe {
namespace {

using namespace troupe::test;

const Tokens kTurn{1, 2, 3, 4, 5};  // two full pages

PlayedOptions two_workers(std::uint32_t num_device_pages, std::uint32_t num_host_pages,
                          std::uint32_t num_disk_pages = 0) {
  auto options = options_of(num_device_pages, num_host_pages, num_disk_pages);
  options.num_workers = 2;
  options.serving.copy_ahead_below = 1.0;
  return options;
}

TEST_CASE("pages of workers: each has its own device pages, and they share the host's") {
  PlayedCache played(two_workers(4, 6));
  played.run(1, kTurn, 0, kTenant, 1);
  CHECK(played.cache.counts(0).free == 4);
  CHECK(played.cache.counts(1).free == 2);
  CHECK(played.cache.counts(1).cached == 2);
  CHECK(played.cache.counts(0).host_total == 6);
  CHECK(played.cache.counts().total == 8);
  CHECK(played.cache.counts().free == 6);
}

TEST_CASE("pages of workers: what is on another device alone is computed again, to the same end") {
  PlayedCache played(two_workers(4, 0));
  played.run(1, kTurn, 0, kTenant, 0);
  CHECK(played.reserve(2, kTurn, 1, kTenant, 1)->known_tokens == 0);
  while (played.compute(2)) {
  }
  played.release(2, 1);
  CHECK(played.cache.num_nodes() == 2);
  CHECK(played.cache.counts(0).cached == 2);
  CHECK(played.cache.counts(1).cached == 2);
  CHECK(played.reserve(3, kTurn, 2, kTenant, 1)->tokens_from_device == 4);
  CHECK(played.reserve(4, kTurn, 2, kTenant, 0)->tokens_from_device == 4);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("pages of workers: what one stored another loads, and then both have it") {
  PlayedCache played(two_workers(4, 4));
  played.run(1, kTurn, 0, kTenant, 0);
  played.copy_ahead(8, 0, 0);
  played.finish_device_work();
  CHECK(played.reserve(2, kTurn, 1, kTenant, 1)->tokens_from_host == 4);
  CHECK(played.reserve(3, kTurn, 1, kTenant, 0)->tokens_from_device == 4);
  played.finish_device_work();
  CHECK(played.cache.is_consistent());
}

TEST_CASE("pages of workers: what is being stored is there for its own worker alone") {
  PlayedCache played(two_workers(2, 4));
  played.run(1, {1, 2, 3}, 0, kTenant, 0);
  played.copy_ahead(8, 0, 0);
  CHECK(played.reserve(2, {1, 2, 3}, 1, kTenant, 1)->known_tokens == 0);
  // Its device page is given away, and the host page still being stored.
  REQUIRE(played.reserve(3, {7, 8, 9, 9}, 1, kTenant, 0).has_value());
  played.release(3, 1);
  CHECK(played.reserve(4, {1, 2, 3}, 2, kTenant, 0)->tokens_from_host == 2);
  played.finish_device_work();
  played.release(2, 2);
  CHECK(played.reserve(5, {1, 2, 3}, 3, kTenant, 1)->tokens_from_host == 2);
  played.finish_device_work();
  CHECK(played.cache.is_consistent());
}

TEST_CASE("pages of workers: a host page that one still loads is not stored into by another") {
  PlayedCache played(two_workers(2, 1));
  played.run(1, {1, 2}, 0, kTenant, 0);
  played.copy_ahead(1, 0, 0);
  played.finish_device_work();
  REQUIRE(played.reserve(2, {1, 2, 3}, 1, kTenant, 1)->tokens_from_host == 2);  // not done yet
  played.run(3, {7, 8}, 50, kTenant, 0);  // worth more than what it loads
  played.copy_ahead(1, 50, 0);
  CHECK(played.cache.statistics().stored == 1);
  played.finish_device_work();
  played.copy_ahead(1, 50, 0);
  CHECK(played.cache.statistics().stored == 2);
}

TEST_CASE("pages of workers: a device that dies takes its leases, and no other's") {
  PlayedCache played(two_workers(4, 4));
  played.run(1, kTurn, 0, kTenant, 0);
  REQUIRE(played.reserve(2, kTurn, 0, kTenant, 0).has_value());
  REQUIRE(played.reserve(3, kTurn, 0, kTenant, 1).has_value());
  played.replace_worker(3, 0);
  CHECK(played.cache.num_leases() == 1);
  CHECK(played.cache.counts(0).free == 3);
  CHECK(played.cache.counts(1).running == 3);
  CHECK(played.cache.is_consistent());
  while (played.compute(3)) {
  }
  played.release(3, 1);
  CHECK(played.cache.counts(1).cached == 2);
  played.cache.remove_worker(1);
  CHECK(played.cache.num_nodes() == 0);
  CHECK(played.cache.counts().total == 3);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("pages of workers: pages of one that was removed are found by its successor on the host") {
  PlayedCache played(two_workers(4, 4));
  played.run(1, kTurn, 0, kTenant, 1);
  played.copy_ahead(8, 0, 1);
  played.finish_device_work();
  played.replace_worker(4, 1);
  CHECK(played.reserve(2, kTurn, 1, kTenant, 1)->tokens_from_host == 4);
  CHECK(played.reserve(3, kTurn, 1, kTenant, 0)->tokens_from_host == 4);
}

TEST_CASE("pages of workers: what a device was still storing when it died is on the host no more") {
  PlayedCache played(two_workers(4, 4));
  played.run(1, kTurn, 0, kTenant, 0);
  played.copy_ahead(8, 0, 0);
  REQUIRE(played.do_next(0));  // of two stores
  played.replace_worker(4, 0, false);
  CHECK(played.cache.counts().host_free == 3);
  CHECK(played.cache.num_nodes() == 1);
  CHECK(played.reserve(2, kTurn, 1, kTenant, 1)->tokens_from_host == 2);
  played.finish_device_work();
  CHECK(played.cache.is_consistent());
}

TEST_CASE("pages of workers: void contents leave the devices on which no lease holds them") {
  PlayedCache played(two_workers(4, 4));
  played.run(1, {1, 2, 3}, 0, kTenant, 0);
  played.copy_ahead(1, 0, 0);
  played.finish_device_work();
  auto grant = played.cache.leases().reserve(1, 2, kTenant, Tokens{1, 2, 3}, exactly(2), at(1));
  const auto copies = played.cache.host().take_copies(1);
  REQUIRE(copies.size() == 1);
  played.cache.disposal().void_contents(copies[0].generation);
  CHECK(played.cache.counts(0).free == 4);
  CHECK(played.cache.counts(1).running == 2);
  CHECK(played.cache.counts().host_free == 4);
  CHECK(played.cache.is_consistent());
  played.cache.leases().release(2, at(2));
  CHECK(played.cache.counts(1).free == 4);
  CHECK(played.cache.num_nodes() == 0);
}

TEST_CASE("pages of workers: affinity says what each would find where") {
  PlayedCache played(two_workers(4, 4, 4));
  played.run(1, kTurn, 0, kTenant, 0);
  CHECK(played.cache.search().affinity(kTenant, kTurn).of(0) == KnownTokens{.on_device = 4});
  CHECK(played.cache.search().affinity(kTenant, kTurn).of(1) == KnownTokens{});
  played.write_all();
  CHECK(played.cache.search().affinity(kTenant, kTurn).of(0) == KnownTokens{.on_device = 4});
  CHECK(played.cache.search().affinity(kTenant, kTurn).of(1) == KnownTokens{.on_host = 4});
  CHECK(played.cache.search().affinity(kTenant, kTurn).of(7) == KnownTokens{.on_host = 4});
  CHECK(played.cache.search().affinity(kTenant, Tokens{1, 2, 3}).of(1) == KnownTokens{.on_host = 2});
  CHECK(played.cache.search().affinity(2, kTurn).of(0) == KnownTokens{});
  played.restart();
  CHECK(played.cache.search().affinity(kTenant, kTurn).of(1) == KnownTokens{.on_disk = 4});
}

struct Traffic {
  EvictionPolicy policy = EvictionPolicy::kValue;
  std::uint32_t num_workers = 3;
  std::uint32_t num_host_pages = 12;
  std::uint32_t num_disk_pages = 24;
};

// Conversations that go from worker to worker, while devices lag behind each other
// and die.
void play_randomly(const Traffic& traffic, std::uint64_t seed) {
  auto options = options_of(12, traffic.num_host_pages, traffic.num_disk_pages);
  options.num_workers = traffic.num_workers;
  options.serving.cache_policy = traffic.policy;
  options.serving.copy_ahead_below = 0.4;
  PlayedCache played(options);
  std::mt19937_64 random(seed);
  std::vector<Tokens> histories(10);
  LeaseId last = 0;
  const auto any_sequence = [&] {
    auto chosen = played.sequences().begin();
    std::advance(chosen, random() % played.sequences().size());
    return chosen->first;
  };
  for (int step = 0; step < 800; ++step) {
    Tokens& history = histories[random() % histories.size()];
    const TenantId tenant = random() % 4 == 0 ? 2 : 1;
    const auto worker = static_cast<WorkerIndex>(random() % traffic.num_workers);
    switch (random() % 14) {
      case 0:
      case 1:
      case 2:
        if (history.size() > 16) history.clear();
        if (history.empty() && random() % 2 == 0) history = histories[random() % histories.size()];
        for (std::uint64_t i = random() % 5 + 1; i > 0; --i)
          history.push_back(static_cast<std::int32_t>(random() % 3));
        if (random() % 2 == 0) played.fetch(history, step, tenant, worker);
        if (random() % 3 != 0) played.reserve(++last, history, step, tenant, worker);
        break;
      case 3: played.copy_ahead(static_cast<std::uint32_t>(random() % 4), step, worker); break;
      case 4: played.write_behind(static_cast<std::uint32_t>(random() % 6), step, worker); break;
      case 5:
        if (!played.sequences().empty()) played.release(any_sequence(), step);
        break;
      case 6: played.finish_work_of(worker); break;
      case 7:
        for (std::uint64_t i = random() % 8; i > 0; --i) played.do_next(worker);
        break;
      case 8:
      case 9:
        if (played.num_transfers() > 0)
          played.finish_transfer(random() % played.num_transfers(), random() % 10 == 0, step);
        break;
      case 10:
        if (random() % 12 == 0) played.replace_worker(8 + random() % 8, worker, random() % 2 == 0);
        if (random() % 40 == 0) played.restart(step);
        if (random() % 6 == 0 && traffic.num_disk_pages > 0)
          played.damage_disk(random() % traffic.num_disk_pages);
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

TEST_CASE("pages of workers: under random traffic every page holds what it is said to") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    play_randomly({}, seed);
    play_randomly({.policy = EvictionPolicy::kLru}, seed);
    play_randomly({.num_workers = 2, .num_host_pages = 3, .num_disk_pages = 9}, seed);
    play_randomly({.num_workers = 5, .num_host_pages = 40, .num_disk_pages = 0}, seed);
  }
}

}  // namespace
}  // namespace troupe
