// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/token_trie.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace troupe {
namespace {

// Entries [begin, end) share their first `depth` bytes: those of the path to `node`.
struct Branch {
  std::size_t node;
  std::size_t begin;
  std::size_t end;
  std::size_t depth;
};

}  // namespace

TokenTrie::TokenTrie(std::vector<Entry> entries) : nodes_(1), bytes_(1, '\0') {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  // Breadth first, so that all children of a node are made at once.
  std::deque<Branch> branches{{0, 0, entries.size(), 0}};
  for (; !branches.empty(); branches.pop_front()) {
    auto [node, begin, end, depth] = branches.front();
    if (begin < end && entries[begin].text.size() == depth) nodes_[node].token = entries[begin++].token;
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = entries[begin].text[depth];
      std::size_t next = begin + 1;
      while (next < end && entries[next].text[depth] == byte) ++next;
      branches.push_back({nodes_.size(), begin, next, depth + 1});
      nodes_.emplace_back();
      bytes_ += byte;
      ++nodes_[node].num_children;
      begin = next;
    }
  }
}

TokenTrie::Match TokenTrie::longest_prefix(std::string_view text) const {
  Match longest;
  longest.num_steps = for_each_prefix(text, [&](std::size_t num_bytes, TokenId token) {
    longest.num_bytes = num_bytes;
    longest.token = token;
  });
  return longest;
}

std::uint32_t TokenTrie::child(const Node& node, char byte) const {
  const char* first = bytes_.data() + node.first_child;
  const void* found = std::memchr(first, byte, node.num_children);
  if (found == nullptr) return 0;
  return node.first_child + static_cast<std::uint32_t>(static_cast<const char*>(found) - first);
}

}  // namespace troupe
