// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_key.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

// The key and the message of SipHash's published vectors: bytes that count up.
constexpr PageSecret kSecret{.k0 = 0x0706050403020100, .k1 = 0x0f0e0d0c0b0a0908};
constexpr PageKey kParent{.low = 0x0706050403020100, .high = 0x0f0e0d0c0b0a0908};

std::string bytes_of(const PageKey& key) {
  std::string text;
  for (const std::uint64_t word : {key.low, key.high})
    for (int byte = 0; byte < 8; ++byte)
      for (const int shift : {4, 0}) text += "0123456789abcdef"[word >> (byte * 8 + shift) & 15];
  return text;
}

std::string key_bytes(const std::vector<std::int32_t>& tokens) {
  return bytes_of(page_key(kSecret, kParent, tokens));
}

TEST_CASE("page_key: it is SipHash-2-4-128, by its published vectors") {
  CHECK(key_bytes({}) == "6ee2a4ca67b054bbfd3315bf85230577");
  CHECK(key_bytes({0x13121110, 0x17161514}) == "2db479ae78bd50d8882a8a178a6132ad");
  CHECK(key_bytes({0x13121110, 0x17161514, 0x1b1a1918, 0x1f1e1d1c}) == "7c3956ca5eeafc3e363e9d556546eb68");
}

// The value is another implementation's, over the 32 bytes 00..1b ff ff ff ff.
TEST_CASE("page_key: an odd number of tokens ends in a word that no token id makes") {
  CHECK(key_bytes({0x13121110, 0x17161514, 0x1b1a1918}) == "cafa1e1903716174a713b74e030ce897");
}

TEST_CASE("page_key: every part of the name counts") {
  const std::vector<std::int32_t> tokens{1, 2, 3};
  const PageKey key = page_key(kSecret, kParent, tokens);
  CHECK(key == page_key(kSecret, kParent, tokens));
  CHECK_FALSE(key == page_key({.k0 = kSecret.k0 + 1, .k1 = kSecret.k1}, kParent, tokens));
  CHECK_FALSE(key == page_key({.k0 = kSecret.k0, .k1 = kSecret.k1 + 1}, kParent, tokens));
  CHECK_FALSE(key == page_key(kSecret, {.low = kParent.low + 1, .high = kParent.high}, tokens));
  CHECK_FALSE(key == page_key(kSecret, {.low = kParent.low, .high = kParent.high + 1}, tokens));
  CHECK_FALSE(key == page_key(kSecret, kParent, std::vector<std::int32_t>{1, 3, 2}));
  CHECK_FALSE(key == page_key(kSecret, kParent, std::vector<std::int32_t>{1, 2}));
  CHECK_FALSE(key == page_key(kSecret, kParent, std::vector<std::int32_t>{1, 2, 3, 0}));
}

TEST_CASE("page_key: pages that differ have keys that differ, also in their low halves") {
  std::set<std::uint64_t> lows;
  std::set<std::pair<std::uint64_t, std::uint64_t>> keys;
  for (std::int32_t first = 0; first < 100; ++first)
    for (std::int32_t second = 0; second < 100; ++second) {
      const PageKey key = page_key(kSecret, {}, std::vector<std::int32_t>{first, second});
      lows.insert(key.low);
      keys.insert({key.low, key.high});
    }
  CHECK(keys.size() == 10000);
  CHECK(lows.size() == 10000);
}

}  // namespace
}  // namespace troupe
