// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/prefix_tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Tokens = std::vector<std::int32_t>;

TEST_CASE("prefix tree: a node is found below its parent, by its tenant's tokens only") {
  PrefixTree tree(2);
  const NodeId first = tree.add(1, kNoNode, Tokens{1, 2});
  const NodeId second = tree.add(1, first, Tokens{1, 2});
  CHECK(tree.find(1, kNoNode, Tokens{1, 2}) == first);
  CHECK(tree.find(1, first, Tokens{1, 2}) == second);
  CHECK(tree.find(2, kNoNode, Tokens{1, 2}) == kNoNode);
  CHECK(tree.find(1, kNoNode, Tokens{1}) == kNoNode);
  CHECK(tree.match(1, Tokens{1, 2, 1, 2, 1}) == std::vector<NodeId>{first, second});
  CHECK(tree.match(1, Tokens{1, 2, 1}) == std::vector<NodeId>{first});
}

TEST_CASE("prefix tree: what is hidden is not found, and keeps its place until it is removed") {
  PrefixTree tree(2);
  const NodeId first = tree.add(1, kNoNode, Tokens{1, 2});
  tree.hide(first);
  CHECK(tree.find(1, kNoNode, Tokens{1, 2}) == kNoNode);
  const NodeId again = tree.add(1, kNoNode, Tokens{1, 2});
  CHECK(again != first);
  CHECK(tree.num_findable() == 1);
  tree.remove(first);
  CHECK(tree.find(1, kNoNode, Tokens{1, 2}) == again);
  CHECK(tree.is_consistent());
}

TEST_CASE("prefix tree: sequences that end below are counted in all above") {
  PrefixTree tree(2);
  const NodeId first = tree.add(1, kNoNode, Tokens{1, 2});
  const NodeId left = tree.add(1, first, Tokens{3, 4});
  CHECK(tree[first].num_leaves == 1);
  CHECK(tree.changed().empty());
  const NodeId right = tree.add(1, first, Tokens{3, 5});
  CHECK(tree[first].num_leaves == 2);
  CHECK(std::vector<NodeId>(tree.changed().begin(), tree.changed().end()) == std::vector<NodeId>{first});
  tree.remove(left);
  CHECK(tree[first].num_leaves == 1);
  tree.remove(right);
  CHECK(tree.changed().empty());
  CHECK(tree.is_consistent());
}

TEST_CASE("prefix tree: the nearest are those with the longest beginnings in common") {
  PrefixTree tree(4);
  const NodeId one = tree.add(1, kNoNode, Tokens{1, 2, 3, 4});
  const NodeId two = tree.add(1, kNoNode, Tokens{1, 2, 9, 9});
  const NodeId tail = tree.add(1, kNoNode, Tokens{1, 2, 3});
  tree.add(1, kNoNode, Tokens{7, 7, 7, 7});
  tree.add(2, kNoNode, Tokens{1, 2, 3, 5});
  const auto near = tree.nearest(1, kNoNode, Tokens{1, 2, 3, 5}, 9);
  REQUIRE(near.size() == 3);
  CHECK(near[0].num_shared == 3);
  CHECK(near[1].num_shared == 3);
  CHECK(near[2] == PrefixTree::Near{.node = two, .num_shared = 2});
  CHECK(std::minmax(near[0].node, near[1].node) == std::minmax(one, tail));
  CHECK(tree.nearest(1, kNoNode, Tokens{1, 2, 3, 5}, 1).size() == 1);
  CHECK(tree.nearest(1, kNoNode, Tokens{8}, 9).empty());
  CHECK(tree.nearest(1, one, Tokens{1}, 9).empty());
  CHECK(tree.nearest(3, kNoNode, Tokens{1}, 9).empty());
}

TEST_CASE("prefix tree: grows and shrinks at random as a map of prefixes does") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    PrefixTree tree(2);
    std::map<std::pair<TenantId, Tokens>, NodeId> known;  // by all tokens up to its last
    for (int step = 0; step < 400; ++step) {
      const TenantId tenant = random() % 2;
      Tokens tokens;
      NodeId parent = kNoNode;
      for (std::uint64_t pages = random() % 4 + 1; pages > 0; --pages) {
        const Tokens page{static_cast<std::int32_t>(random() % 2), static_cast<std::int32_t>(random() % 3)};
        tokens.insert(tokens.end(), page.begin(), page.end());
        const auto found = known.find({tenant, tokens});
        REQUIRE(tree.find(tenant, parent, page) == (found == known.end() ? kNoNode : found->second));
        parent =
            found != known.end() ? found->second : known[{tenant, tokens}] = tree.add(tenant, parent, page);
      }
      if (tree[parent].num_children == 0 && random() % 2 == 0) {
        tree.remove(parent);
        known.erase({tenant, tokens});
      }
      REQUIRE(tree.num_findable() == known.size());
      REQUIRE(tree.is_consistent());
    }
  }
}

}  // namespace
}  // namespace troupe
