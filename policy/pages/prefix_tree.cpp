// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/prefix_tree.hpp"

#include <algorithm>
#include <cassert>

namespace troupe {

void PrefixTree::reserve(std::size_t num_nodes) {
  if (num_nodes > nodes_.capacity()) nodes_.reserve(std::max(num_nodes, nodes_.capacity() * 2));
}

NodeId PrefixTree::find(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens) const {
  const auto* const siblings = siblings_of(tenant, parent);
  if (!siblings) return kNoNode;
  const std::size_t place = lower_bound(*siblings, tokens);
  if (place == siblings->size()) return kNoNode;
  const auto& found = nodes_[(*siblings)[place]].tokens;
  const bool is_it = std::equal(tokens.begin(), tokens.end(), found.begin(), found.end());
  return is_it ? (*siblings)[place] : kNoNode;
}

std::vector<NodeId> PrefixTree::match(TenantId tenant, std::span<const std::int32_t> tokens) const {
  std::vector<NodeId> chain;
  NodeId parent = kNoNode;
  for (std::size_t i = 0; i + page_size_ <= tokens.size(); i += page_size_) {
    const NodeId node = find(tenant, parent, tokens.subspan(i, page_size_));
    if (node == kNoNode) break;
    chain.push_back(parent = node);
  }
  return chain;
}

// In the tokens' order, what is further away shares no more.
std::vector<PrefixTree::Near> PrefixTree::nearest(TenantId tenant, NodeId parent,
                                                  std::span<const std::int32_t> tokens,
                                                  std::size_t most) const {
  std::vector<Near> found;
  const auto* const siblings = siblings_of(tenant, parent);
  if (!siblings) return found;
  std::size_t right = lower_bound(*siblings, tokens);
  std::size_t left = right;
  const auto shared_left = [&] { return left > 0 ? num_shared((*siblings)[left - 1], tokens) : 0; };
  const auto shared_right = [&] {
    return right < siblings->size() ? num_shared((*siblings)[right], tokens) : 0;
  };
  std::uint32_t on_left = shared_left(), on_right = shared_right();
  while (found.size() < most && std::max(on_left, on_right) > 0) {
    if (on_right >= on_left) {
      found.push_back({.node = (*siblings)[right++], .num_shared = on_right});
      on_right = shared_right();
    } else {
      found.push_back({.node = (*siblings)[--left], .num_shared = on_left});
      on_left = shared_left();
    }
  }
  return found;
}

std::uint32_t PrefixTree::num_shared(NodeId node, std::span<const std::int32_t> tokens) const {
  const auto& of_node = nodes_[node].tokens;
  const auto end = std::mismatch(of_node.begin(), of_node.end(), tokens.begin(), tokens.end());
  return static_cast<std::uint32_t>(end.first - of_node.begin());
}

NodeId PrefixTree::add(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens) {
  changed_.clear();
  if (free_nodes_.empty()) {
    free_nodes_.push_back(end());
    nodes_.emplace_back();
  }
  const NodeId id = free_nodes_.back();
  free_nodes_.pop_back();
  Node& node = nodes_[id];
  node.is_used = true;
  node.tenant = tenant;
  node.parent = parent;
  node.tokens.assign(tokens.begin(), tokens.end());
  auto& siblings = *siblings_of(tenant, parent);
  siblings.insert(siblings.begin() + static_cast<std::ptrdiff_t>(lower_bound(siblings, tokens)), id);
  num_findable_ += 1;
  if (parent == kNoNode) return id;
  node.depth = nodes_[parent].depth + 1;
  if (nodes_[parent].num_children++ > 0) change_leaves(parent, 1);
  return id;
}

void PrefixTree::remove(NodeId id) {
  assert(nodes_[id].num_children == 0);
  changed_.clear();
  if (nodes_[id].is_findable) hide(id);
  const NodeId parent = nodes_[id].parent;
  nodes_[id] = Node{};
  free_nodes_.push_back(id);
  if (parent != kNoNode && --nodes_[parent].num_children > 0) change_leaves(parent, -1);
}

void PrefixTree::hide(NodeId id) {
  Node& node = nodes_[id];
  auto& siblings = *siblings_of(node.tenant, node.parent);
  siblings.erase(siblings.begin() + static_cast<std::ptrdiff_t>(lower_bound(siblings, node.tokens)));
  node.is_findable = false;
  num_findable_ -= 1;
  if (node.parent == kNoNode && siblings.empty())
    std::erase_if(roots_, [&](const Roots& roots) { return roots.tenant == node.tenant; });
}

void PrefixTree::change_leaves(NodeId id, int difference) {
  for (; id != kNoNode; id = nodes_[id].parent) {
    nodes_[id].num_leaves += static_cast<std::uint32_t>(difference);
    changed_.push_back(id);
  }
}

const std::vector<NodeId>* PrefixTree::siblings_of(TenantId tenant, NodeId parent) const {
  if (parent != kNoNode) return &nodes_[parent].children;
  const auto found =
      std::lower_bound(roots_.begin(), roots_.end(), tenant,
                       [](const Roots& roots, TenantId wanted) { return roots.tenant < wanted; });
  return found != roots_.end() && found->tenant == tenant ? &found->children : nullptr;
}

std::vector<NodeId>* PrefixTree::siblings_of(TenantId tenant, NodeId parent) {
  if (parent != kNoNode) return &nodes_[parent].children;
  auto found = std::lower_bound(roots_.begin(), roots_.end(), tenant,
                                [](const Roots& roots, TenantId wanted) { return roots.tenant < wanted; });
  if (found == roots_.end() || found->tenant != tenant)
    found = roots_.insert(found, {.tenant = tenant, .children = {}});
  return &found->children;
}

// The place of the first whose tokens do not come before these.
std::size_t PrefixTree::lower_bound(const std::vector<NodeId>& siblings,
                                    std::span<const std::int32_t> tokens) const {
  const auto found = std::lower_bound(
      siblings.begin(), siblings.end(), tokens, [&](NodeId id, std::span<const std::int32_t> wanted) {
        const auto& of_node = nodes_[id].tokens;
        return std::lexicographical_compare(of_node.begin(), of_node.end(), wanted.begin(), wanted.end());
      });
  return static_cast<std::size_t>(found - siblings.begin());
}

bool PrefixTree::is_consistent() const { return has_right_children() && has_right_leaves(); }

bool PrefixTree::has_right_children() const {
  std::vector<std::uint32_t> num_children(nodes_.size());
  std::size_t num_findable = 0;
  for (NodeId id = 0; id < end(); ++id) {
    const Node& node = nodes_[id];
    if (!node.is_used) continue;
    if (node.parent != kNoNode) {
      num_children[node.parent] += 1;
      if (nodes_[node.parent].depth + 1 != node.depth) return false;
    }
    num_findable += node.is_findable ? 1 : 0;
    const NodeId found = find(node.tenant, node.parent, node.tokens);
    if (node.is_findable ? found != id : found == id) return false;
  }
  for (NodeId id = 0; id < end(); ++id)
    if (nodes_[id].is_used && nodes_[id].num_children != num_children[id]) return false;
  return num_findable == num_findable_;
}

// Leaves counted from below: a node's own end, or those of its children.
bool PrefixTree::has_right_leaves() const {
  std::vector<std::uint32_t> leaves(nodes_.size());
  for (NodeId id = 0; id < end(); ++id) {
    if (!nodes_[id].is_used || nodes_[id].num_children > 0) continue;
    for (NodeId at = id; at != kNoNode; at = nodes_[at].parent) leaves[at] += 1;
  }
  for (NodeId id = 0; id < end(); ++id)
    if (nodes_[id].is_used && nodes_[id].num_leaves != leaves[id]) return false;
  return true;
}

}  // namespace troupe
