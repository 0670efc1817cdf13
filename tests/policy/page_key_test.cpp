// SPDX-License-Identifier: Apache-2.0
#include "policy/page_key.hpp"

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <vector>

namespace troupe {
namespace {

// The key 00 01 .. 0f of the reference implementation.
constexpr PageSecret kReferenceSecret{.k0 = 0x0706050403020100ULL, .k1 = 0x0f0e0d0c0b0a0908ULL};

TEST_CASE("page key: it is SipHash-2-4-128, as OpenSSL computes it") {
  // Of the bytes 00 01 .. 0f, here the parent: 6ee2a4ca67b054bb fd3315bf85230577.
  const PageKey parent{.low = 0x0706050403020100ULL, .high = 0x0f0e0d0c0b0a0908ULL};
  const PageKey key = page_key(kReferenceSecret, parent, {});
  CHECK(key.low == 0xbb54b067caa4e26eULL);
  CHECK(key.high == 0x77052385bf1533fdULL);
}

TEST_CASE("page key: secret, parent, every token and the number of tokens matter") {
  const std::vector<std::int32_t> tokens{1, 2, 3};
  const PageKey key = page_key(kReferenceSecret, {}, tokens);
  CHECK(key == page_key(kReferenceSecret, {}, tokens));
  CHECK_FALSE(key == page_key({.k0 = 1, .k1 = 2}, {}, tokens));
  CHECK_FALSE(key == page_key(kReferenceSecret, {.low = 1, .high = 0}, tokens));
  CHECK_FALSE(key == page_key(kReferenceSecret, {}, std::array<std::int32_t, 3>{1, 2, 4}));
  CHECK_FALSE(key == page_key(kReferenceSecret, {}, std::array<std::int32_t, 3>{2, 1, 3}));
  CHECK_FALSE(key == page_key(kReferenceSecret, {}, std::array<std::int32_t, 2>{1, 2}));
}

TEST_CASE("page key: ten thousand pages, no two alike") {
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (std::int32_t i = 0; i < 10'000; ++i) {
    const std::array<std::int32_t, 2> tokens{i, -i};
    const PageKey key = page_key(kReferenceSecret, {}, tokens);
    CHECK(seen.emplace(key.low, key.high).second);
  }
}

}  // namespace
}  // namespace troupe
