// SPDX-License-Identifier: Apache-2.0
// The invariants of PageCache, looked at one by one.
#include <map>

#include "policy/page_cache.hpp"

namespace troupe {

bool PageCache::is_consistent() const {
  // Every page has one owner: the free list, a node, or one lease alone.
  std::vector<int> device_owners(options_.num_device_pages, 0);
  std::vector<int> host_owners(options_.num_host_pages, 0);
  for (const std::uint32_t page : free_device_pages_) device_owners.at(page) += 1;
  for (const std::uint32_t page : free_host_pages_) host_owners.at(page) += 1;
  std::vector<int> disk_owners(options_.num_disk_pages, 0);
  for (const std::uint32_t page : free_disk_pages_) disk_owners.at(page) += 1;
  // A transfer that was given up has a disk page and some host page.
  std::uint32_t num_given_up = 0;
  for (const auto& [page, node] : under_way_) {
    num_given_up += node == kNone ? 1 : 0;
    disk_owners.at(page) += node == kNone ? 1 : 0;
  }

  std::map<NodeId, std::uint32_t> leases, holders, children, disk_children;
  for (const auto& [id, lease] : leases_) {
    for (const HeldPage& held : lease.pages) {
      if (held.is_private) device_owners.at(held.page) += 1;
      if (held.node == kNone) continue;
      leases[held.node] += 1;
      if (held.is_private) continue;
      holders[held.node] += 1;
      if (nodes_[held.node].device_page != held.page) return false;
    }
  }
  for (const Node& node : nodes_)
    if (node.is_used && node.parent != kNone) {
      children[node.parent] += 1;
      disk_children[node.parent] += node.disk_page != kNone ? 1 : 0;
    }

  std::size_t num_findable = 0, num_dirty = 0, num_clean = 0, num_on_host = 0, num_on_disk = 0;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    if (!node.is_used) continue;
    if (node.is_lifted) return false;
    if (node.num_leases != leases[id] || node.num_holders != holders[id]) return false;
    if (node.num_children != children[id]) return false;
    if (node.num_disk_children != disk_children[id]) return false;
    if (!has_page(id) && node.num_children == 0 && node.num_leases == 0) return false;
    if (node.parent != kNone && nodes_[node.parent].depth + 1 != node.depth) return false;
    if (node.device_page != kNone) device_owners.at(node.device_page) += 1;
    if (node.host_page != kNone) host_owners.at(node.host_page) += 1;
    if (node.host_page != kNone && host_owners_[node.host_page] != id) return false;
    if (node.disk_page != kNone) disk_owners.at(node.disk_page) += 1;
    const bool is_moving = node.is_fetching || node.is_writing;
    if (is_moving && (node.disk_page == kNone || node.host_page == kNone)) return false;
    if (node.disk_page != kNone && is_moving != is_under_way(id)) return false;
    if (has_page(id) && node.generation == 0) return false;
    num_findable += node.is_void ? 0 : 1;

    const bool is_evictable =
        !node.is_void && node.device_page != kNone && node.num_holders == 0;
    const bool is_dirty = is_evictable && node.host_page == kNone;
    const bool is_clean = is_evictable && node.host_page != kNone;
    if (dirty_.contains(id) != is_dirty || clean_.contains(id) != is_clean) return false;
    const bool may_leave_host = node.host_page != kNone && !is_moving;
    const bool may_leave_disk =
        node.disk_page != kNone && !is_moving && node.num_disk_children == 0 && !node.is_void;
    if (on_host_.contains(id) != may_leave_host || on_disk_.contains(id) != may_leave_disk)
      return false;
    const bool has_disk_page = node.disk_page != kNone;
    if (loose_.contains(id) != (is_dirty && !has_disk_page) ||
        backed_.contains(id) != (may_leave_host && has_disk_page))
      return false;
    num_dirty += is_dirty ? 1 : 0;
    num_clean += is_clean ? 1 : 0;
    num_on_host += may_leave_host ? 1 : 0;
    num_on_disk += may_leave_disk ? 1 : 0;
  }
  for (const int owners : device_owners)
    if (owners != 1) return false;
  std::uint32_t num_without_owner = 0;
  for (const int owners : host_owners) {
    if (owners > 1) return false;
    num_without_owner += owners == 0 ? 1 : 0;
  }
  for (const int owners : disk_owners)
    if (owners != 1) return false;
  return num_without_owner == num_given_up && num_findable == by_key_.size() &&
         num_dirty == dirty_.size() && num_clean == clean_.size() &&
         num_on_host == on_host_.size() && num_on_disk == on_disk_.size();
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
