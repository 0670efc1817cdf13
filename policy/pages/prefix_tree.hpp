// SPDX-License-Identifier: Apache-2.0
// The tree of known prefixes: a node is one page's worth of tokens below the page
// in front of it. Prefixes of different tenants have nothing in common. Nodes are
// found by their tokens themselves: the children of a node are in the tokens'
// order, so that no hash can collide or be aimed at. Where the KV of a node is,
// PagePlaces knows. A value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/pages/page_transfer.hpp"

namespace troupe {

using NodeId = std::uint32_t;  // small, used again
inline constexpr NodeId kNoNode = UINT32_MAX;

class PrefixTree {
 public:
  struct Node {
    bool is_used = false;
    bool is_findable = true;
    TenantId tenant = 0;
    NodeId parent = kNoNode;  // kNoNode: the first page
    std::vector<std::int32_t> tokens;
    std::uint32_t depth = 0;         // pages in front
    std::uint32_t num_children = 0;  // the hidden ones too
    std::uint32_t num_leaves = 1;    // sequences that end below: how many would miss it
    std::vector<NodeId> children;    // findable ones, by their tokens
  };

  explicit PrefixTree(std::uint32_t page_size) : page_size_(page_size) {}

  // Space for so many nodes: a table that grows as a whole would stall.
  void reserve(std::size_t num_nodes);

  const Node& operator[](NodeId node) const { return nodes_[node]; }
  NodeId end() const { return static_cast<NodeId>(nodes_.size()); }  // above all ids
  std::size_t num_findable() const { return num_findable_; }

  // kNoNode: there is none.
  NodeId find(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens) const;
  // The nodes of the full pages that `tokens` begin with, from the front.
  std::vector<NodeId> match(TenantId tenant, std::span<const std::int32_t> tokens) const;

  struct Near {
    NodeId node = kNoNode;
    std::uint32_t num_shared = 0;  // tokens at the beginning, 1 or more
    bool operator==(const Near&) const = default;
  };
  // The nodes below `parent` that share the longest beginnings with `tokens`,
  // longest first, at most so many: they stand side by side.
  std::vector<Near> nearest(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens,
                            std::size_t most) const;

  // Must not be there yet.
  NodeId add(TenantId tenant, NodeId parent, std::span<const std::int32_t> tokens);
  // Must have no children.
  void remove(NodeId node);
  // It stays where it is, and is not found any more.
  void hide(NodeId node);
  // Nodes of which the last add or remove has changed num_leaves, nearest first.
  std::span<const NodeId> changed() const { return changed_; }

  // Every invariant, the slow way.
  bool is_consistent() const;

 private:
  friend class Fingerprint;
  struct Roots {
    TenantId tenant = 0;
    std::vector<NodeId> children;
  };

  std::vector<NodeId>* siblings_of(TenantId tenant, NodeId parent);
  const std::vector<NodeId>* siblings_of(TenantId tenant, NodeId parent) const;
  std::uint32_t num_shared(NodeId node, std::span<const std::int32_t> tokens) const;
  std::size_t lower_bound(const std::vector<NodeId>& siblings, std::span<const std::int32_t> tokens) const;
  void change_leaves(NodeId node, int difference);
  bool has_right_leaves() const;
  bool has_right_children() const;

  std::uint32_t page_size_;
  std::vector<Node> nodes_;
  std::vector<NodeId> free_nodes_;
  std::vector<Roots> roots_;  // by tenant
  std::size_t num_findable_ = 0;
  std::vector<NodeId> changed_;
};

}  // namespace troupe
