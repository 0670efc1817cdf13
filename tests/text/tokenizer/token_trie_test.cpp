// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/token_trie.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>

namespace troupe {

TEST_CASE("token trie: the longest entry wins, not the first") {
  const TokenTrie trie({{"a", 1}, {"abc", 2}, {"abcde", 3}, {"b", 4}});
  CHECK(trie.longest_prefix("abcd").token == 2);
  CHECK(trie.longest_prefix("abcd").num_bytes == 3);
  CHECK(trie.longest_prefix("abcdef").token == 3);
  CHECK(trie.longest_prefix("ab").token == 1);
  CHECK(trie.longest_prefix("ba").token == 4);
}

TEST_CASE("token trie: a text that begins with no entry matches nothing") {
  const TokenTrie trie({{"abc", 2}});
  CHECK(trie.longest_prefix("ab").num_bytes == 0);
  CHECK(trie.longest_prefix("xabc").num_bytes == 0);
  CHECK(trie.longest_prefix("").num_bytes == 0);
  CHECK(TokenTrie({}).longest_prefix("a").num_bytes == 0);
}

TEST_CASE("token trie: no more bytes are looked at than the longest entry has, and one") {
  const TokenTrie trie({{"aaa", 0}});
  CHECK(trie.longest_prefix(std::string(1000, 'a')).num_steps == 4);
}

TEST_CASE("token trie: it finds what trying every entry finds") {
  std::mt19937 random(1);
  const auto random_string = [&](std::size_t max_size) {
    std::string text(1 + random() % max_size, 'a');
    // Bytes above 127 as well: they sort by their unsigned value.
    for (char& c : text) c = "ab\xC3\xFF"[random() % 4];
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    std::set<std::string> texts;
    for (int i = 0; i < 20; ++i) texts.insert(random_string(5));
    const std::vector<std::string> list(texts.begin(), texts.end());
    std::vector<TokenTrie::Entry> entries;
    for (std::size_t i = 0; i < list.size(); ++i) entries.push_back({list[i], static_cast<TokenId>(i)});
    const TokenTrie trie(entries);
    for (int i = 0; i < 50; ++i) {
      const std::string text = random_string(8);
      const TokenTrie::Match match = trie.longest_prefix(text);
      std::size_t longest = 0;
      for (const std::string& entry : list)
        if (text.starts_with(entry)) longest = std::max(longest, entry.size());
      REQUIRE(match.num_bytes == longest);
      if (longest > 0) REQUIRE(list[static_cast<std::size_t>(match.token)] == text.substr(0, longest));
    }
  }
}

}  // namespace troupe
