// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_cache.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "tests/policy/pages/played_cache.hpp"

namespace troupe {
namespace {

using namespace troupe::test;

TEST_CASE("page cache: in the beginning all pages are free") {
  PageCache cache(options_of(5, 3));
  cache.add_worker(0, 5);
  CHECK(cache.counts().free == 5);
  CHECK(cache.counts().host_free == 3);
  CHECK(cache.is_consistent());
}

TEST_CASE("page cache: a reservation takes what it wants, what there is, or nothing") {
  PageCache cache(options_of(5));
  cache.add_worker(0, 5);
  const Tokens tokens{1, 2, 3};
  CHECK(cache.leases().reserve(0, 1, 1, tokens, {.required = 2, .wanted = 3}, at(0))->pages.size() == 3);
  CHECK(cache.leases().reserve(0, 2, 1, tokens, {.required = 1, .wanted = 9}, at(0))->pages.size() == 2);
  CHECK(!cache.leases().reserve(0, 3, 1, tokens, exactly(2), at(0)).has_value());
  cache.leases().release(2, at(0));
  CHECK(!cache.leases().reserve(0, 3, 1, tokens, {.required = 2, .wanted = 2, .keep_free = 1}, at(0)));
  CHECK(cache.leases().reserve(0, 3, 1, tokens, exactly(2), at(0)).has_value());
}

TEST_CASE("page cache: a later sequence finds the full pages of an earlier one") {
  PlayedCache played(options_of(8));
  played.run(1, {1, 2, 3, 4, 5});
  const auto grant = played.reserve(2, {1, 2, 3, 4, 9});
  CHECK(grant->known_tokens == 4);
  CHECK(grant->tokens_from_device == 4);
  CHECK(grant->holes.empty());
}

TEST_CASE("page cache: at least one token is left to compute") {
  PlayedCache played(options_of(8));
  played.run(1, {1, 2, 3, 4});
  CHECK(played.reserve(2, {1, 2, 3, 4})->known_tokens == 3);
}

TEST_CASE("page cache: tenants don't find each other's pages") {
  PlayedCache played(options_of(8));
  played.run(1, {1, 2, 3}, 0, 1);
  CHECK(played.reserve(2, {1, 2, 3}, 0, 2)->known_tokens == 0);
  CHECK(played.reserve(3, {1, 2, 3}, 0, 1)->known_tokens == 2);
}

TEST_CASE("page cache: without prefixes a page is free when its sequence lets go") {
  auto options = options_of(4);
  options.serving.cache_policy = EvictionPolicy::kNone;
  PlayedCache played(options);
  played.run(1, {1, 2, 3, 4, 5});
  CHECK(played.cache.counts().free == 4);
  CHECK(played.reserve(2, {1, 2, 3, 4, 5})->known_tokens == 0);
}

TEST_CASE("page cache: what is pushed off the device is loaded from the host") {
  PlayedCache played(options_of(3, 8));
  played.run(1, {1, 2, 3, 4, 5}, 0);
  played.run(2, {6, 7, 8, 9, 10}, 1);
  const auto grant = played.reserve(3, {1, 2, 3, 4, 5}, 2);
  CHECK(grant->known_tokens == 4);
  CHECK(grant->tokens_from_host > 0);
  CHECK(grant->tokens_from_device + grant->tokens_from_host == 4);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("page cache: by value, a conversation is trimmed from its beginning, leaving a hole") {
  PlayedCache played(options_of(4));
  played.run(1, {1, 2, 3, 4, 5, 6, 7}, 0);
  played.run(2, {11, 12, 13}, 1);  // two pages, of which one was free
  const auto grant = played.reserve(3, {1, 2, 3, 4, 5, 6, 7, 8}, 2);
  CHECK(grant->known_tokens == 6);
  CHECK(grant->holes == std::vector<TokenRange>{{.begin = 0, .end = 2}});
  CHECK(grant->tokens_from_device == 4);
}

TEST_CASE("page cache: a hole that was filled is found again") {
  PlayedCache played(options_of(4));
  played.run(1, {1, 2, 3, 4, 5, 6, 7}, 0);
  played.run(2, {11, 12, 13}, 1);
  played.run(3, {1, 2, 3, 4, 5, 6, 7, 8}, 2);
  CHECK(played.reserve(4, {1, 2, 3, 4, 5, 6, 7}, 3)->holes.empty());
}

TEST_CASE("page cache: by time, a conversation is trimmed from its end") {
  auto options = options_of(4);
  options.serving.cache_policy = EvictionPolicy::kLru;
  PlayedCache played(options);
  played.run(1, {1, 2, 3, 4, 5, 6, 7}, 0);
  played.run(2, {11, 12, 13}, 1);
  const auto grant = played.reserve(3, {1, 2, 3, 4, 5, 6, 7, 8}, 2);
  CHECK(grant->known_tokens == 4);
  CHECK(grant->holes.empty());
}

TEST_CASE("page cache: what many share outlives what one has") {
  PlayedCache played(options_of(5));
  played.run(1, {1, 2, 3, 4, 5}, 0);
  played.run(2, {1, 2, 6, 7, 8}, 0);  // shares the first page
  played.run(3, {21, 22, 23, 24, 25}, 0);
  CHECK(played.reserve(4, {1, 2, 3}, 1)->known_tokens == 2);
}

// A device with room for the whole conversation and the side requests of one turn: a title
// and a summary.
void play_with_side_requests(PlayedOptions options) {
  PlayedCache played(std::move(options));
  Tokens chat;
  LeaseId last = 0;
  std::int32_t next_token = 0;
  int now = 0;
  for (int turn = 0; turn < 12; ++turn, now += 60) {
    CAPTURE(turn);
    const auto num_known = static_cast<std::uint32_t>(chat.size() / kPageSize * kPageSize);
    for (int i = 0; i < 3; ++i) chat.push_back(next_token++);
    const auto grant = played.reserve(++last, chat, now);
    REQUIRE(grant.has_value());
    CHECK(grant->tokens_from_device == num_known);
    CHECK(grant->holes.empty());
    while (played.compute(last, now)) {
    }
    played.release(last, now);
    for (int side = 0; side < 2; ++side) {
      Tokens prompt;
      for (int i = 0; i < 9; ++i) prompt.push_back(next_token++);
      played.run(++last, prompt, now += 2);
    }
  }
}

TEST_CASE("page cache: side requests take the place of earlier ones, never the conversation's") {
  auto options = options_of(28);
  play_with_side_requests(options);
  options.cost = {};
  play_with_side_requests(options);
  options.serving.cache_policy = EvictionPolicy::kLru;
  play_with_side_requests(options);
}

TEST_CASE("page cache: copies made ahead leave the device page where it is") {
  auto options = options_of(4, 4);
  options.serving.copy_ahead_below = 1.0;
  PlayedCache played(options);
  played.run(1, {1, 2, 3, 4, 5}, 0);
  played.copy_ahead(8, 1);
  CHECK(played.cache.statistics().stored == 2);
  CHECK(played.cache.counts().host_free == 2);
  CHECK(played.reserve(2, {1, 2, 3, 4, 5}, 2)->tokens_from_device == 4);
}

TEST_CASE("page cache: copies ahead stop when enough could be given away, or at the most allowed") {
  auto options = options_of(8, 8);
  options.serving.copy_ahead_below = 0.75;
  PlayedCache played(options);
  played.run(1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 0);  // 6 cached, 2 free
  played.copy_ahead(1);
  CHECK(played.cache.statistics().stored == 1);
  played.copy_ahead(99);
  CHECK(played.cache.statistics().stored == 4);
}

TEST_CASE("page cache: what the host has survives the device") {
  auto options = options_of(4, 4);
  options.serving.copy_ahead_below = 1.0;
  PlayedCache played(options);
  played.run(1, {1, 2, 3, 4, 5}, 0);
  played.copy_ahead(8);
  played.replace_worker(3);
  CHECK(played.cache.is_consistent());
  CHECK(played.reserve(2, {1, 2, 3, 4, 5}, 1)->tokens_from_host == 4);
}

TEST_CASE("page cache: void contents are not found, and their page is freed with its holder") {
  auto options = options_of(4, 4);
  options.serving.copy_ahead_below = 1.0;
  PlayedCache played(options);
  played.run(1, {1, 2, 3, 4, 5}, 0);
  played.copy_ahead(8);
  played.replace_worker(4);
  const auto grant = played.cache.leases().reserve(0, 2, kTenant, Tokens{1, 2, 3, 4, 5}, exactly(3), at(1));
  for (const PageCopy& copy : played.cache.host().take_copies(0))
    played.cache.disposal().void_contents(copy.generation);
  CHECK(played.cache.is_consistent());
  CHECK(played.cache.counts().free == 1);
  CHECK(played.reserve(3, {1, 2}, 1)->known_tokens == 0);
  played.cache.leases().release(2, at(2));
  CHECK(played.cache.counts().free == 3);
  CHECK(played.cache.counts().host_free == 4);
  CHECK(played.cache.is_consistent());
}

TEST_CASE("page cache: two who compute the same page at once share the first one's later") {
  PlayedCache played(options_of(8));
  REQUIRE(played.reserve(1, {1, 2, 3}).has_value());
  REQUIRE(played.reserve(2, {1, 2, 3}).has_value());
  played.compute(1);
  played.compute(2);
  CHECK(played.cache.is_consistent());
  played.release(1);
  played.release(2);
  CHECK(played.cache.counts().cached == 1);
  CHECK(played.cache.counts().free == 7);
}

struct Traffic {
  EvictionPolicy policy;
  std::uint32_t num_host_pages;
};

// Conversations that grow, branch, end and come back, devices that die.
void play_randomly(const Traffic& traffic, std::uint64_t seed) {
  auto options = options_of(24, traffic.num_host_pages);
  options.serving.cache_policy = traffic.policy;
  options.serving.copy_ahead_below = 0.3;
  PlayedCache played(options);
  std::mt19937_64 random(seed);
  std::vector<Tokens> histories(12);
  LeaseId last = 0;
  for (int step = 0; step < 600; ++step) {
    const std::size_t which = random() % histories.size();
    Tokens& history = histories[which];
    switch (random() % 8) {
      case 0:
      case 1: {
        if (history.size() > 20) history.clear();
        if (history.empty() && random() % 2 == 0) history = histories[random() % histories.size()];
        for (std::uint64_t i = random() % 5 + 1; i > 0; --i)
          history.push_back(static_cast<std::int32_t>(random() % 3));
        played.reserve(++last, history, step, random() % 4 == 0 ? 2 : 1);
        break;
      }
      case 2: played.copy_ahead(static_cast<std::uint32_t>(random() % 4), step); break;
      case 3:
        if (!played.sequences().empty()) {
          auto chosen = played.sequences().begin();
          std::advance(chosen, random() % played.sequences().size());
          played.release(chosen->first, step);
        }
        break;
      case 4:
        if (random() % 20 == 0) played.replace_worker(24, 0, random() % 2 == 0);
        break;
      default:
        if (!played.sequences().empty()) {
          auto chosen = played.sequences().begin();
          std::advance(chosen, random() % played.sequences().size());
          played.compute(chosen->first);
        }
    }
    REQUIRE(played.cache.is_consistent());
  }
  while (!played.sequences().empty()) played.release(played.sequences().begin()->first, 601);
  REQUIRE(played.cache.is_consistent());
  REQUIRE(played.cache.counts().running == 0);
}

TEST_CASE("page cache: under random traffic every page holds what it is said to") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    play_randomly({.policy = EvictionPolicy::kValue, .num_host_pages = 16}, seed);
    play_randomly({.policy = EvictionPolicy::kLru, .num_host_pages = 16}, seed);
    play_randomly({.policy = EvictionPolicy::kValue, .num_host_pages = 0}, seed);
    play_randomly({.policy = EvictionPolicy::kValue, .num_host_pages = 3}, seed);
  }
}

TEST_CASE("page cache: without prefixes random traffic leaves nothing behind") {
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    play_randomly({.policy = EvictionPolicy::kNone, .num_host_pages = 4}, seed);
}

}  // namespace
}  // namespace troupe
