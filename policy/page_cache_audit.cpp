// SPDX-License-Identifier: Apache-2.0
// The invariants of PageCache, looked at one by one.
#include <algorithm>
#include <array>
#include <map>

#include "policy/page_cache.hpp"

namespace troupe {

bool PageCache::is_consistent() const {
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (nodes_[id].is_used && !(is_node_consistent(id) && is_in_right_queues(id))) return false;
  return have_pages_one_owner() && are_counted_right() && have_queues_nothing_else();
}

// A node by itself.
bool PageCache::is_node_consistent(NodeId id) const {
  const Node& node = nodes_[id];
  if (node.is_lifted) return false;
  if (!has_page(id) && node.num_children == 0 && node.num_leases == 0) return false;
  if (node.parent != kNone && nodes_[node.parent].depth + 1 != node.depth) return false;
  if (node.host_page != kNone && host_owners_[node.host_page] != id) return false;
  const bool is_moving = node.is_fetching || node.is_writing;
  if (is_moving && (node.disk_page == kNone || node.host_page == kNone)) return false;
  if (node.disk_page != kNone && is_moving != is_under_way(id)) return false;
  return !has_page(id) || node.generation != 0;
}

bool PageCache::is_in_right_queues(NodeId id) const {
  const Node& node = nodes_[id];
  const bool has_disk_page = node.disk_page != kNone;
  const bool is_moving = node.is_fetching || node.is_writing;
  const bool is_evictable = !node.is_void && node.device_page != kNone && node.num_holders == 0;
  const bool is_dirty = is_evictable && node.host_page == kNone;
  const bool is_clean = is_evictable && node.host_page != kNone;
  const bool may_leave_host = node.host_page != kNone && !is_moving;
  const bool may_leave_disk = has_disk_page && !is_moving && node.num_disk_children == 0 && !node.is_void;
  return dirty_.contains(id) == is_dirty && clean_.contains(id) == is_clean &&
         on_host_.contains(id) == may_leave_host && on_disk_.contains(id) == may_leave_disk &&
         loose_.contains(id) == (is_dirty && !has_disk_page) &&
         backed_.contains(id) == (may_leave_host && has_disk_page);
}

// Nor does the index: with the right nodes in them, sizes tell.
bool PageCache::have_queues_nothing_else() const {
  std::size_t num_findable = 0;
  std::array<std::size_t, 6> sizes{};
  const std::array queues{&dirty_, &clean_, &on_host_, &on_disk_, &loose_, &backed_};
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (!nodes_[id].is_used) continue;
    num_findable += nodes_[id].is_void ? 0 : 1;
    for (std::size_t i = 0; i < queues.size(); ++i) sizes[i] += queues[i]->contains(id) ? 1 : 0;
  }
  for (std::size_t i = 0; i < queues.size(); ++i)
    if (queues[i]->size() != sizes[i]) return false;
  return num_findable == by_key_.size();
}

// Leases, holders and children, as the leases and the children themselves say.
bool PageCache::are_counted_right() const {
  std::map<NodeId, std::uint32_t> leases, holders, children, disk_children;
  for (const auto& [id, lease] : leases_) {
    for (const HeldPage& held : lease.pages) {
      if (held.node == kNone) continue;
      leases[held.node] += 1;
      if (held.is_private) continue;
      holders[held.node] += 1;
      if (nodes_[held.node].device_page != held.page) return false;
    }
  }
  for (const Node& node : nodes_) {
    if (!node.is_used || node.parent == kNone) continue;
    children[node.parent] += 1;
    disk_children[node.parent] += node.disk_page != kNone ? 1 : 0;
  }
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    if (node.is_used && (node.num_leases != leases[id] || node.num_holders != holders[id] ||
                         node.num_children != children[id] || node.num_disk_children != disk_children[id]))
      return false;
  }
  return true;
}

// The free list, a node, one lease alone, or a transfer that was given up, which
// has a disk page and some host page.
bool PageCache::have_pages_one_owner() const {
  std::vector<int> on_device(options_.num_device_pages), on_host(options_.num_host_pages),
      on_disk(options_.num_disk_pages);
  for (const std::uint32_t page : free_device_pages_) on_device.at(page) += 1;
  for (const std::uint32_t page : free_host_pages_) on_host.at(page) += 1;
  for (const std::uint32_t page : free_disk_pages_) on_disk.at(page) += 1;
  for (const auto& [id, lease] : leases_)
    for (const HeldPage& held : lease.pages)
      if (held.is_private) on_device.at(held.page) += 1;
  for (const Node& node : nodes_) {
    if (!node.is_used) continue;
    if (node.device_page != kNone) on_device.at(node.device_page) += 1;
    if (node.host_page != kNone) on_host.at(node.host_page) += 1;
    if (node.disk_page != kNone) on_disk.at(node.disk_page) += 1;
  }
  std::ptrdiff_t num_given_up = 0;
  for (const auto& [page, node] : under_way_) {
    if (node != kNone) continue;
    num_given_up += 1;
    on_disk.at(page) += 1;
  }
  const auto is_one = [](int owners) { return owners == 1; };
  return std::all_of(on_device.begin(), on_device.end(), is_one) &&
         std::all_of(on_disk.begin(), on_disk.end(), is_one) &&
         std::all_of(on_host.begin(), on_host.end(), [](int owners) { return owners <= 1; }) &&
         std::count(on_host.begin(), on_host.end(), 0) == num_given_up;
}

bool PageCache::is_under_way(NodeId id) const {
  const auto found = under_way_.find(nodes_[id].disk_page);
  return found != under_way_.end() && found->second == id;
}

// Leaves counted from below: a node's own end, or those of its children.
bool PageCache::has_right_leaves() const {
  std::map<NodeId, std::uint32_t> leaves;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (!nodes_[id].is_used || nodes_[id].num_children > 0) continue;
    for (NodeId at = id; at != kNone; at = nodes_[at].parent) leaves[at] += 1;
  }
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (nodes_[id].is_used && nodes_[id].num_leaves != leaves[id]) return false;
  return true;
}

}  // namespace troupe
