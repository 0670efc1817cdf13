// SPDX-License-Identifier: Apache-2.0
// Parts of pages: heads that are copied, tails of sequences that have ended.
#include "policy/pages/page_cache.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/policy/pages/played_cache.hpp"

namespace troupe {
namespace {

using namespace troupe::test;

constexpr std::uint32_t kTokensAPage = 4;

PlayedOptions heads_of(std::uint32_t num_device_pages, std::uint32_t num_host_pages = 0,
                       std::uint32_t num_disk_pages = 0) {
  auto options = options_of(num_device_pages, num_host_pages, num_disk_pages);
  options.page_size = kTokensAPage;
  options.serving.copy_ahead_below = 1.0;
  return options;
}

const Tokens kTurn{1, 2, 3, 4, 5, 6, 7, 8, 9};  // two full pages

TEST_CASE("page heads: a prompt that leaves a page inside it finds all tokens that are the same") {
  PlayedCache played(heads_of(8));
  played.run(1, kTurn);
  const auto grant = played.reserve(2, {1, 2, 3, 4, 5, 6, 99, 98, 97});
  CHECK(grant->known_tokens == 6);
  CHECK(grant->tokens_from_device == 6);
  CHECK(grant->holes.empty());
  CHECK(played.cache.statistics().heads == 1);
  played.end(2);
  CHECK(played.reserve(3, kTurn)->known_tokens == 8);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("page heads: the first page too, and no token of another tenant's") {
  PlayedCache played(heads_of(8));
  played.run(1, kTurn);
  CHECK(played.reserve(2, {1, 2, 9, 9, 9}, 0, kTenant)->known_tokens == 2);
  CHECK(played.reserve(3, {1, 2, 9, 9, 9}, 0, 2)->known_tokens == 0);
}

TEST_CASE("page heads: a prompt that is known whole has its last token computed") {
  PlayedCache played(heads_of(8));
  played.run(1, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(played.reserve(2, {1, 2, 3, 4, 5, 6, 7, 8})->known_tokens == 7);
  CHECK(played.reserve(3, {1})->known_tokens == 0);
}

TEST_CASE("page heads: the longest is taken, from the device rather than from the host") {
  PlayedCache played(heads_of(4, 4));
  played.run(1, {1, 2, 3, 4}, 0);
  played.run(2, {1, 2, 9, 9}, 0);
  CHECK(played.reserve(3, {1, 2, 9, 7, 7}, 1)->known_tokens == 3);
  played.release(3, 1);
  played.copy_ahead(8, 1);
  played.finish_device_work();
  played.replace_worker(4);
  CHECK(played.reserve(4, {1, 2, 3, 7, 7}, 2)->tokens_from_host == 3);
  played.finish_device_work();
  CHECK(played.cache.is_consistent());
}

TEST_CASE("page heads: what is loaded for its head stays the host's, and the lease's page its own") {
  PlayedCache played(heads_of(4, 4));
  played.run(1, {1, 2, 3, 4}, 0);
  played.copy_ahead(8);
  played.finish_device_work();
  played.replace_worker(4);
  REQUIRE(played.reserve(2, {1, 2, 3, 7, 7}, 1)->tokens_from_host == 3);
  CHECK(played.cache.counts().running == 2);
  CHECK(played.cache.counts().host_free == 3);
  played.end(2, 1);
  CHECK(played.reserve(3, {1, 2, 3, 4, 4}, 2)->tokens_from_host == 4);
  played.finish_device_work();
}

TEST_CASE("page heads: with one page left, which is the one to copy from, it is given away") {
  PlayedCache played(heads_of(1));
  played.run(1, {1, 2, 3, 4});
  CHECK(played.reserve(2, {1, 2, 3, 7})->known_tokens == 0);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("page heads: one that is only on disk is fetched like a page") {
  PlayedCache played(heads_of(8, 8, 8));
  played.run(1, kTurn);
  played.write_all();
  played.restart();
  CHECK(played.reserve(2, {1, 2, 3, 4, 5, 6, 99})->known_tokens == 4);  // as a hole
  played.release(2);
  CHECK(played.fetch({1, 2, 3, 4, 5, 6, 99}) == 2);
  played.finish_transfers();
  const auto grant = played.reserve(3, {1, 2, 3, 4, 5, 6, 99});
  CHECK(grant->known_tokens == 6);
  CHECK(grant->tokens_from_host == 6);
  played.finish_device_work();
  CHECK(played.cache.is_consistent());
}

TEST_CASE("page heads: a load that is dearer than the head is not made") {
  auto options = heads_of(8, 8);
  options.cost = {.constant = 4.0, .attention = {}};
  options.load_from_host = {.fixed = 0.0, .per_page = 2.5};
  PlayedCache played(options);
  played.run(1, {1, 2, 3, 4});
  played.copy_ahead(8);
  played.finish_device_work();
  played.replace_worker(8);
  CHECK(played.reserve(2, {1, 2, 7})->known_tokens == 0);
  CHECK(played.reserve(3, {1, 2, 3, 7})->known_tokens == 3);
}

TEST_CASE("page tails: the next turn of a conversation goes on inside its last page") {
  PlayedCache played(heads_of(8));
  REQUIRE(played.reserve(1, {1, 2, 3, 4, 5, 6}).has_value());
  played.end(1);
  CHECK(played.cache.counts().cached == 2);
  CHECK(played.reserve(2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})->known_tokens == 6);
  played.end(2);
  CHECK(played.cache.num_nodes() == 3);  // two pages and a longer tail
  CHECK(played.cache.counts().cached == 3);
  CHECK(played.reserve(3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})->known_tokens == 10);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("page tails: one that a page on the device begins with is not kept") {
  PlayedCache played(heads_of(8));
  played.run(1, {1, 2, 3, 4});
  REQUIRE(played.reserve(2, {1, 2, 3}).has_value());
  played.end(2);
  CHECK(played.cache.num_nodes() == 1);
  CHECK(played.cache.counts().free == 7);
}

TEST_CASE("page tails: they go to the host, to no disk, and are forgotten with the conversation") {
  PlayedCache played(heads_of(8, 8, 8));
  REQUIRE(played.reserve(1, {1, 2, 3, 4, 5, 6}).has_value());
  played.end(1);
  played.copy_ahead(8);
  played.write_all();
  CHECK(played.cache.counts().disk_free == 7);
  CHECK(played.cache.counts().host_free == 6);
  played.replace_worker(8);
  CHECK(played.reserve(2, {1, 2, 3, 4, 5, 6, 7})->tokens_from_host == 6);
  played.release(2);
  played.finish_device_work();
  played.cache.disposal().forget(kTenant, Tokens{1, 2, 3, 4, 5, 6, 7});
  CHECK(played.cache.num_nodes() == 0);
  CHECK(played.cache.counts().host_free == 8);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("page tails: a conversation that ends with its tail is closed with it") {
  PlayedCache played(heads_of(8));
  REQUIRE(played.reserve(1, {1, 2, 3, 4, 5, 6}).has_value());
  played.end(1);
  REQUIRE(played.cache.num_nodes() == 2);
  const std::size_t num_known = 6;
  for (const std::size_t num_tokens : {num_known - 1, num_known}) {
    const Tokens tokens{1, 2, 3, 4, 5, 6};
    played.cache.disposal().forget(kTenant, std::span(tokens).first(num_tokens));
    CHECK(played.cache.num_nodes() == (num_tokens == num_known ? 0 : 2));
  }
}

TEST_CASE("page tails: of a conversation that is closed, a tail with kept tokens stays") {
  PlayedCache played(heads_of(8));
  REQUIRE(played.reserve(1, {1, 2, 3, 4, 5, 6}).has_value());
  played.end(1);
  played.cache.disposal().forget(kTenant, Tokens{1, 2, 3, 4, 5, 6, 7}, 5);
  CHECK(played.cache.num_nodes() == 2);
  played.cache.disposal().forget(kTenant, Tokens{1, 2, 3, 4, 5, 6, 7}, 4);
  CHECK(played.cache.num_nodes() == 1);
}

// What ought to be found when nothing ever has to go: every page, by all tokens up
// to its last, on the devices and on the host.
class KnownPages {
 public:
  explicit KnownPages(std::uint32_t num_workers) : on_devices_(num_workers) {}

  void add(WorkerIndex worker, TenantId tenant, const Tokens& tokens) {
    const std::size_t num_full = tokens.size() / kTokensAPage;
    for (std::size_t page = 1; page <= num_full; ++page)
      add_page(worker, tenant, {tokens.begin(), tokens.begin() + page * kTokensAPage});
    if (tokens.size() % kTokensAPage != 0) add_page(worker, tenant, tokens);
  }
  void store_all(WorkerIndex worker) {
    on_host_.insert(on_devices_[worker].begin(), on_devices_[worker].end());
  }
  void lose(WorkerIndex worker) { on_devices_[worker].clear(); }

  struct Expected {
    std::uint32_t known_tokens = 0;
    std::uint32_t num_computed = 0;  // in holes
    bool operator==(const Expected&) const = default;
  };
  Expected find(WorkerIndex worker, TenantId tenant, const Tokens& tokens) const {
    Expected expected;
    std::set<std::size_t> whole;  // pages that are there
    for (const auto* pages : {&on_devices_[worker], &on_host_})
      for (const auto& [owner, prefix] : *pages) {
        if (owner != tenant) continue;
        const auto same = std::mismatch(prefix.begin(), prefix.end(), tokens.begin(), tokens.end() - 1);
        const auto length = static_cast<std::uint32_t>(same.first - prefix.begin());
        const std::size_t begin = (prefix.size() - 1) / kTokensAPage * kTokensAPage;
        if (length > begin) expected.known_tokens = std::max(expected.known_tokens, length);
        if (length == prefix.size() && length % kTokensAPage == 0) whole.insert(begin / kTokensAPage);
      }
    for (std::size_t page = 0; page < expected.known_tokens / kTokensAPage; ++page)
      expected.num_computed += whole.contains(page) ? 0 : kTokensAPage;
    return expected;
  }

 private:
  using Pages = std::set<std::pair<TenantId, Tokens>>;

  // A tail goes when a longer page that begins with it is computed, and is of no use
  // to a device that has such a page.
  void add_page(WorkerIndex worker, TenantId tenant, const Tokens& prefix) {
    const auto begins = [](const Tokens& shorter, const Tokens& longer) {
      return shorter.size() < longer.size() &&
             (shorter.size() - 1) / kTokensAPage == (longer.size() - 1) / kTokensAPage &&
             std::equal(shorter.begin(), shorter.end(), longer.begin());
    };
    for (const auto& [owner, page] : on_devices_[worker])
      if (owner == tenant && (page == prefix || begins(prefix, page))) return;
    const bool is_full = prefix.size() % kTokensAPage == 0;
    if (is_full && on_host_.contains({tenant, prefix})) {  // it was loaded
      on_devices_[worker].insert({tenant, prefix});
      return;
    }
    const auto is_replaced = [&](const auto& page) {
      return page.first == tenant && begins(page.second, prefix);
    };
    for (Pages& pages : on_devices_) std::erase_if(pages, is_replaced);
    std::erase_if(on_host_, is_replaced);
    on_devices_[worker].insert({tenant, prefix});
  }

  std::vector<Pages> on_devices_;
  Pages on_host_;
};

TEST_CASE("page heads: with room for all, exactly what is known is found, whoever knows it") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    constexpr std::uint32_t kWorkers = 2;
    auto options = heads_of(4000, 4000);
    options.num_workers = kWorkers;
    PlayedCache played(options);
    KnownPages known(kWorkers);
    std::mt19937_64 random(seed);
    std::vector<Tokens> histories(6);
    LeaseId last = 0;
    for (int step = 0; step < 120; ++step) {
      Tokens& history = histories[random() % histories.size()];
      if (random() % 4 == 0) history = histories[random() % histories.size()];
      if (random() % 4 == 0) history.resize(random() % (history.size() + 1));
      for (std::uint64_t i = random() % 7 + 1; i > 0; --i)
        history.push_back(static_cast<std::int32_t>(random() % 2));
      if (history.size() > 24) history.resize(5);
      const TenantId tenant = random() % 4 == 0 ? 2 : 1;
      const auto worker = static_cast<WorkerIndex>(random() % kWorkers);
      const auto grant = played.reserve(++last, history, step, tenant, worker);
      REQUIRE(grant.has_value());
      std::uint32_t num_computed = 0;
      for (const TokenRange& hole : grant->holes) num_computed += hole.size();
      const KnownPages::Expected found{.known_tokens = grant->known_tokens, .num_computed = num_computed};
      REQUIRE(found == known.find(worker, tenant, history));
      if (random() % 8 == 0) {
        played.release(last, step);
      } else {
        played.end(last, step);
        known.add(worker, tenant, history);
      }
      if (random() % 6 == 0) {
        played.copy_ahead(1000, step, worker);
        played.finish_device_work();
        known.store_all(worker);
      }
      if (random() % 15 == 0) {
        played.replace_worker(4000, worker);
        known.lose(worker);
      }
      REQUIRE(played.cache.is_consistent());
    }
  }
}

struct Traffic {
  EvictionPolicy policy = EvictionPolicy::kValue;
  std::uint32_t num_workers = 2;
  std::uint32_t num_host_pages = 12;
  std::uint32_t num_disk_pages = 24;
  bool has_load_costs = false;
};

// Conversations whose turns end, are taken up again and changed at any token, over
// memories that are too small.
void play_randomly(const Traffic& traffic, std::uint64_t seed) {
  auto options = heads_of(10, traffic.num_host_pages, traffic.num_disk_pages);
  options.num_workers = traffic.num_workers;
  options.serving.cache_policy = traffic.policy;
  options.serving.copy_ahead_below = 0.4;
  if (traffic.has_load_costs) {
    options.load_from_host = {.fixed = 0.2, .per_page = 0.5};
    options.load_from_disk = {.fixed = 0.5, .per_page = 0.7};
  }
  PlayedCache played(options);
  std::mt19937_64 random(seed);
  std::vector<Tokens> histories(8);
  std::uint64_t num_heads = 0;
  LeaseId last = 0;
  const auto any_sequence = [&] {
    auto chosen = played.sequences().begin();
    std::advance(chosen, random() % played.sequences().size());
    return chosen->first;
  };
  for (int step = 0; step < 700; ++step) {
    Tokens& history = histories[random() % histories.size()];
    const TenantId tenant = random() % 4 == 0 ? 2 : 1;
    const auto worker = static_cast<WorkerIndex>(random() % traffic.num_workers);
    switch (random() % 13) {
      case 0:
      case 1:
      case 2:
        if (random() % 4 == 0) history = histories[random() % histories.size()];
        if (random() % 3 == 0) history.resize(random() % (history.size() + 1));
        for (std::uint64_t i = random() % 7 + 1; i > 0; --i)
          history.push_back(static_cast<std::int32_t>(random() % 2));
        if (history.size() > 24) history.resize(5);
        if (random() % 2 == 0) played.fetch(history, step, tenant, worker);
        if (const auto grant = played.reserve(++last, history, step, tenant, worker))
          num_heads += grant->known_tokens % kTokensAPage == 0 ? 0 : 1;
        break;
      case 3: played.copy_ahead(static_cast<std::uint32_t>(random() % 4), step, worker); break;
      case 4: played.write_behind(static_cast<std::uint32_t>(random() % 6), step, worker); break;
      case 5:
      case 6:
        if (played.sequences().empty()) break;
        if (random() % 4 == 0) {
          played.release(any_sequence(), step);
        } else {
          played.end(any_sequence(), step);
        }
        break;
      case 7:
        for (std::uint64_t i = random() % 8; i > 0; --i) played.do_next(worker);
        break;
      case 8:
      case 9:
        if (played.num_transfers() > 0)
          played.finish_transfer(random() % played.num_transfers(), random() % 10 == 0, step);
        break;
      case 10:
        if (random() % 12 == 0) played.replace_worker(8 + random() % 6, worker, random() % 2 == 0);
        if (random() % 40 == 0) played.restart(step);
        if (random() % 6 == 0 && traffic.num_disk_pages > 0)
          played.damage_disk(random() % traffic.num_disk_pages);
        break;
      case 11:
        if (random() % 4 == 0) played.cache.disposal().forget(tenant, history, random() % 3 * 4);
        if (random() % 30 == 0) played.cache.disposal().expire(at(step - 100), 5);
        break;
      default:
        if (!played.sequences().empty()) played.compute(any_sequence());
    }
    REQUIRE(played.cache.is_consistent());
  }
  while (!played.sequences().empty()) played.end(played.sequences().begin()->first, 701);
  played.finish_device_work();
  played.finish_transfers(701);
  REQUIRE(played.cache.is_consistent());
  REQUIRE(played.cache.counts().running == 0);
  CHECK(num_heads > 0);
}

TEST_CASE("page heads: under random traffic every page begins with what it is said to") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    play_randomly({}, seed);
    play_randomly({.policy = EvictionPolicy::kLru, .num_workers = 1}, seed);
    play_randomly({.num_host_pages = 0, .num_disk_pages = 0}, seed);
    play_randomly({.num_workers = 3, .num_host_pages = 3, .num_disk_pages = 9}, seed);
    play_randomly({.has_load_costs = true}, seed);
  }
}

}  // namespace
}  // namespace troupe
