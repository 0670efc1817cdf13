// SPDX-License-Identifier: Apache-2.0
// Pages: shared by prefix, taken from the latest when they run out, never lost.
#include "actors/cache_tier.hpp"

#include <doctest/doctest.h>

#include "tests/actors/world.hpp"

namespace troupe {
namespace {

TEST_CASE("paging: a second request with the same beginning shares its pages") {
  sim::SimWorld world(sim::small_settings());
  const auto first = submit(world, letters(std::string(41, 'x') + "one", 5));
  REQUIRE(world.run());
  CHECK(first->finished()->usage.cached_tokens == 0);
  const auto second = submit(world, letters(std::string(41, 'x') + "two", 5));
  REQUIRE(world.run());
  CHECK(second->finished()->usage.cached_tokens == 41);  // ten pages and a token of the next
  CHECK(leftovers(world) == "");
}

TEST_CASE("paging: the last token of a prompt is computed even if all of it is known") {
  sim::SimWorld world(sim::small_settings());
  submit(world, letters(std::string(40, 'x'), 5));
  REQUIRE(world.run());
  const auto again = submit(world, letters(std::string(40, 'x'), 5));
  REQUIRE(world.run());
  CHECK(again->finished()->usage.cached_tokens == 39);
}

TEST_CASE("paging: an answer's own tokens are shared by the next turn") {
  sim::SimWorld world(sim::small_settings());
  const auto first = submit(world, letters(std::string(20, 'x'), 30, 11));
  REQUIRE(world.run());
  REQUIRE(first->text().size() == 30);  // no end token in it, which has no text
  const auto second = submit(world, letters(std::string(20, 'x') + first->text() + "next", 5));
  REQUIRE(world.run());
  CHECK(second->finished()->usage.cached_tokens >= 44);
}

TEST_CASE("paging: with the prefix cache off nothing is shared and nothing is kept") {
  auto settings = sim::small_settings();
  settings.options.serving.cache_policy = EvictionPolicy::kNone;
  sim::SimWorld world(settings);
  for (int i = 0; i < 3; ++i) {
    const auto client = submit(world, letters(std::string(40, 'x'), 5));
    REQUIRE(world.run());
    CHECK(client->finished()->usage.cached_tokens == 0);
  }
  CHECK(world.pages().counts().free == 64);
}

TEST_CASE("paging: when pages run out the latest gives way, and all answers are right") {
  for (const std::uint32_t num_pages : {20U, 24U, 32U, 40U}) {
    auto settings = sim::small_settings();
    settings.device.description.num_pages = num_pages;
    sim::SimWorld world(settings);
    std::vector<std::shared_ptr<sim::SimClient>> clients;
    for (int i = 0; i < 8; ++i) clients.push_back(submit(world, letters("hello", 60, i)));
    REQUIRE(world.run());
    for (const auto& client : clients) CHECK(client->finished());
    CHECK(leftovers(world) == "");
  }
}

TEST_CASE("paging: a sequence that needs all pages there are gets them") {
  auto settings = sim::small_settings();
  settings.device.description.num_pages = 20;
  sim::SimWorld world(settings);
  const auto large = submit(world, letters(std::string(10, 'x'), 70));
  std::vector<std::shared_ptr<sim::SimClient>> others;
  for (int i = 0; i < 6; ++i) others.push_back(submit(world, letters("hello", 20, i)));
  REQUIRE(world.run());
  CHECK(large->finished()->usage.completion_tokens == 70);
  for (const auto& client : others) CHECK(client->finished());
  CHECK(leftovers(world) == "");
}

TEST_CASE("paging: pages of a message that nobody receives come back") {
  sim::SimWorld world(sim::small_settings());
  // Cancelled at every point of an admission, also with the grant on its way.
  for (int num_steps = 0; num_steps < 12; ++num_steps) {
    const auto client = submit(world, letters(std::string(30, 'x'), 20, num_steps));
    for (int i = 0; i < num_steps; ++i) world.step();
    client->cancel();
    REQUIRE(world.run());
    CHECK(leftovers(world) == "");
  }
}

}  // namespace
}  // namespace troupe
