// SPDX-License-Identifier: Apache-2.0
#include "policy/vectors/vector_cache.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>

using namespace troupe;
using std::chrono::seconds;

namespace {

const VectorCache::TimePoint kBegin{seconds(100)};

VectorInput input(std::int32_t token, std::uint32_t model = 0, std::uint32_t second_text = 0) {
  return {.model = model, .second_text = second_text, .tokens = {token, 2, 3}};
}

// Bytes of one entry of a tenant whose name has one letter.
std::size_t entry_bytes() {
  VectorCache cache(1U << 20U, seconds(1));
  cache.put("a", input(1), {1, 2}, kBegin);
  return cache.num_bytes();
}

}  // namespace

TEST_CASE("vector cache: an input that comes again has its vector, and no other input has") {
  VectorCache cache(1U << 20U, seconds(10));
  CHECK(cache.find("a", input(1), kBegin) == nullptr);
  cache.put("a", input(1), {1, 2}, kBegin);
  REQUIRE(cache.find("a", input(1), kBegin) != nullptr);
  CHECK(*cache.find("a", input(1), kBegin) == std::vector<float>{1, 2});
  CHECK(cache.find("a", input(2), kBegin) == nullptr);
  CHECK(cache.find("a", input(1, 1), kBegin) == nullptr);
  CHECK(cache.find("a", input(1, 0, 2), kBegin) == nullptr);
}

TEST_CASE("vector cache: a tenant never finds what another one has left") {
  VectorCache cache(1U << 20U, seconds(10));
  cache.put("a", input(1), {1, 2}, kBegin);
  CHECK(cache.find("b", input(1), kBegin) == nullptr);
  CHECK(cache.find("", input(1), kBegin) == nullptr);
}

TEST_CASE("vector cache: a vector goes when it has its age, however often it is used") {
  VectorCache cache(1U << 20U, seconds(10));
  cache.put("a", input(1), {1, 2}, kBegin);
  cache.put("a", input(2), {1, 2}, kBegin + seconds(5));
  CHECK(cache.find("a", input(1), kBegin + seconds(9)) != nullptr);
  CHECK(cache.find("a", input(1), kBegin + seconds(10)) == nullptr);
  CHECK(cache.size() == 1);
  CHECK(cache.find("a", input(2), kBegin + seconds(15)) == nullptr);
  CHECK(cache.num_bytes() == 0);
}

TEST_CASE("vector cache: the longest unused goes where there is no room") {
  VectorCache cache(2 * entry_bytes(), seconds(10));
  cache.put("a", input(1), {1, 2}, kBegin);
  cache.put("a", input(2), {1, 2}, kBegin);
  CHECK(cache.find("a", input(1), kBegin) != nullptr);
  cache.put("a", input(3), {1, 2}, kBegin);
  CHECK(cache.find("a", input(2), kBegin) == nullptr);
  CHECK(cache.find("a", input(1), kBegin) != nullptr);
  cache.put("a", input(4), std::vector<float>(10'000), kBegin);  // more than all the room
  CHECK(cache.size() == 2);
}

TEST_CASE("vector cache: under any traffic it keeps its bounds, and an even share is safe from others") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::size_t max_bytes = 30 * entry_bytes();
    VectorCache cache(max_bytes, seconds(50));
    for (int i = 0; i < 3000; ++i) {
      const auto now = kBegin + std::chrono::milliseconds(10 * i);
      // One asks a hundred times as much as another.
      const std::string tenant(1, random() % 100 == 0 ? 'b' : random() % 10 == 0 ? 'c' : 'a');
      std::map<std::string, std::size_t> before;
      for (const char* name : {"a", "b", "c"}) before[name] = cache.num_bytes(name);
      cache.put(tenant, input(static_cast<std::int32_t>(random() % 200)),
                std::vector<float>(1 + random() % 40), now);
      REQUIRE(cache.num_bytes() <= max_bytes);
      REQUIRE(cache.num_bytes() == cache.num_bytes("a") + cache.num_bytes("b") + cache.num_bytes("c"));
      for (const char* name : {"a", "b", "c"})
        if (name != tenant && before[name] <= max_bytes / 3) REQUIRE(cache.num_bytes(name) == before[name]);
    }
    CHECK(cache.size() > 10);
  }
}
