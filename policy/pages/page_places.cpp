// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/page_places.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe {
namespace {

// A host page whose contents a running sequence has on the device is worth
// little: its loss costs a copy.
constexpr double kWorthOfSpare = 1.0 / 1024;

}  // namespace

PagePlaces::PagePlaces(PageCacheOptions options)
    : options_(std::move(options)),
      restore_costs_{
          .recompute = options_.cost, .host = options_.load_from_host, .disk = options_.load_from_disk},
      tree_(options_.page_size),
      tiers_(options_.serving, options_.num_host_pages, options_.num_disk_pages),
      next_generation_(options_.first_generation) {
  assert(options_.page_size > 0);
  make_room_for(std::size_t{options_.num_host_pages} + options_.num_disk_pages);
}

void PagePlaces::add_device(WorkerIndex worker, std::uint32_t num_pages) {
  tiers_.add_device(worker, num_pages);
  make_room_for(num_pages);
}

// Tables that grow as a whole would stall; memory is used when nodes are.
void PagePlaces::make_room_for(std::size_t num_pages) {
  num_pages_ += num_pages;
  tree_.reserve(num_pages_);
  if (num_pages_ > places_.capacity()) places_.reserve(std::max(num_pages_, places_.capacity() * 2));
}

void PagePlaces::remove_device(WorkerIndex worker) {
  for (const NodeId lost : tiers_.host().drop_copies_of(worker)) drop_host_page(lost);
  for (NodeId id = 0; id < tree_.end(); ++id) {
    if (!tree_[id].is_used) continue;
    dequeue(id);
    std::erase_if(places_[id].on_devices, [&](const DevicePage& page) { return page.worker == worker; });
    enqueue(id);
  }
  for (NodeId id = 0; id < tree_.end(); ++id)
    if (tree_[id].is_used) prune(id);
  num_pages_ -= tiers_.device(worker).num_pages();
  tiers_.remove_device(worker);
}

NodeId PagePlaces::add(TenantId tenant, QuotaId quota, NodeId parent, std::span<const std::int32_t> tokens) {
  const NodeId id = tree_.add(tenant, parent, tokens);
  if (id >= places_.size()) places_.resize(std::size_t{id} + 1);
  places_[id].quota = quota;
  reweigh_changed();
  return id;
}

void PagePlaces::hide(NodeId id) {
  dequeue(id);
  tree_.hide(id);
  places_[id].is_void = true;
}

void PagePlaces::skip_generation(std::uint64_t known) {
  next_generation_ = std::max(next_generation_, known + 1);
}

void PagePlaces::prune(NodeId id) {
  while (id != kNoNode) {
    const PagePlace& place = places_[id];
    if (place.has_page() || tree_[id].num_children > 0 || place.num_leases > 0) return;
    const NodeId parent = tree_[id].parent;
    tree_.remove(id);
    places_[id] = PagePlace{};
    tiers_.disk().forget(id);
    reweigh_changed();
    id = parent;
  }
}

bool PagePlaces::is_unwritten(NodeId id) const {
  const PagePlace& place = places_[id];
  return options_.num_disk_pages > 0 && is_settled(place) && !place.is_void && place.disk_page == kNone &&
         !is_tail(id);
}

bool PagePlaces::is_way_open(NodeId id) const {
  const PagePlace& place = places_[id];
  return options_.num_disk_pages > 0 && place.host_page == kNone && place.disk_page == kNone && !is_tail(id);
}

void PagePlaces::enqueue(NodeId id, WorkerIndex worker) {
  const PagePlace& place = places_[id];
  if (place.is_void) return;
  EvictionEntry entry{.id = id,
                      .worth = worth(id),
                      .depth = tree_[id].depth,
                      .last_used = place.last_used,
                      .quota = place.quota};
  const bool is_on_way_to_disk = is_way_open(id);
  for (const DevicePage& page : place.on_devices) {
    if (page.worker == place.lifted_for || (worker != kAll && worker != page.worker)) continue;
    if (page.num_holders == 0) tiers_.device(page.worker).enqueue(page.page, entry, place.host_page != kNone);
    if (is_on_way_to_disk) tiers_.device(page.worker).enqueue_loose(page.page, entry);
  }
  if (place.lifted_for != PagePlace::kNobody) return;
  if (place.is_on_disk() && !place.is_fetching && place.num_disk_children == 0) tiers_.disk().enqueue(entry);
  if (is_unwritten(id)) tiers_.disk().list_unwritten(id);
  if (!place.is_on_host() || place.is_writing) return;
  entry.worth = worth_on_host(id);
  tiers_.host().enqueue(entry, place.is_on_disk());
}

void PagePlaces::dequeue(NodeId id, WorkerIndex worker) {
  for (const DevicePage& page : places_[id].on_devices)
    if (worker == kAll || worker == page.worker) tiers_.device(page.worker).dequeue(page.page);
  tiers_.host().dequeue(id);
  tiers_.disk().dequeue(id);
}

void PagePlaces::lift(WorkerIndex worker, std::span<const NodeId> chain) {
  for (const NodeId node : chain) {
    dequeue(node, worker);
    places_[node].lifted_for = worker;
  }
}

void PagePlaces::put_back(std::span<const NodeId> chain) {
  for (const NodeId node : chain) {
    enqueue(node, std::exchange(places_[node].lifted_for, PagePlace::kNobody));
  }
}

// Its worth has changed, and nothing else.
void PagePlaces::reweigh(NodeId id) {
  const double of_node = worth(id);
  for (const DevicePage& page : places_[id].on_devices)
    tiers_.device(page.worker).change_worth(page.page, of_node);
  tiers_.disk().change_worth(id, of_node);
  tiers_.host().change_worth(id, worth_on_host(id));
}

void PagePlaces::reweigh_changed() {
  for (const NodeId id : tree_.changed()) reweigh(id);
}

double PagePlaces::worth(NodeId id) const {
  const PrefixTree::Node& node = tree_[id];
  const double share = static_cast<double>(node.tokens.size()) / options_.page_size;
  return options_.cost.of_page(node.depth) * share * node.num_leaves;
}

double PagePlaces::worth_on_host(NodeId id) const {
  return worth(id) * (places_[id].is_held() ? kWorthOfSpare : 1.0);
}

void PagePlaces::own(std::span<const NodeId> chain, QuotaId quota) {
  for (const NodeId id : chain) {
    PagePlace& place = places_[id];
    if (place.quota == quota) continue;
    dequeue(id);
    for (const DevicePage& page : place.on_devices)
      tiers_.device(page.worker).change_quota(place.quota, quota);
    const std::uint32_t host_page = place.host_page == kNone ? kNone : clear_host_page(id);
    const std::uint32_t disk_page = place.disk_page == kNone ? kNone : clear_disk_page(id);
    place.quota = quota;
    if (host_page != kNone) set_host_page(id, host_page);
    if (disk_page != kNone) set_disk_page(id, disk_page);
    enqueue(id);
  }
}

void PagePlaces::free_device_page(NodeId id, WorkerIndex worker) {
  auto& pages = places_[id].on_devices;
  const auto found =
      std::find_if(pages.begin(), pages.end(), [&](const DevicePage& page) { return page.worker == worker; });
  tiers_.device(worker).put_free(found->page, places_[id].quota);
  pages.erase(found);
}

void PagePlaces::set_host_page(NodeId id, std::uint32_t host_page) {
  places_[id].host_page = host_page;
  tiers_.host().set_owner(host_page, id);
  tiers_.used_on_host().add(places_[id].quota);
}

std::uint32_t PagePlaces::clear_host_page(NodeId id) {
  tiers_.used_on_host().remove(places_[id].quota);
  return std::exchange(places_[id].host_page, kNone);
}

void PagePlaces::drop_host_page(NodeId id) {
  dequeue(id);
  const std::uint32_t page = clear_host_page(id);
  tiers_.host().set_owner(page, kNoNode);
  tiers_.host().put_free(page);
  enqueue(id);
}

void PagePlaces::set_disk_page(NodeId id, std::uint32_t disk_page) {
  places_[id].disk_page = disk_page;
  tiers_.used_on_disk().add(places_[id].quota);
  count_disk_child(tree_[id].parent, 1);
}

std::uint32_t PagePlaces::clear_disk_page(NodeId id) {
  tiers_.used_on_disk().remove(places_[id].quota);
  count_disk_child(tree_[id].parent, -1);
  return std::exchange(places_[id].disk_page, kNone);
}

void PagePlaces::drop_disk_page(NodeId id, DiskBook::Discard discard) {
  dequeue(id);
  const std::uint32_t page = clear_disk_page(id);
  tiers_.disk().queue_discard(page, discard);
  tiers_.disk().put_free(page);
  places_[id].is_writing = false;
  enqueue(id);
}

void PagePlaces::count_disk_child(NodeId parent, int difference) {
  if (parent == kNoNode) return;
  dequeue(parent);
  places_[parent].num_disk_children += static_cast<std::uint32_t>(difference);
  enqueue(parent);
}

void PagePlaces::abandon_transfer(NodeId id) {
  dequeue(id);
  PagePlace& place = places_[id];
  tiers_.disk().give_up(place.disk_page);
  tiers_.host().set_owner(clear_host_page(id), kNoNode);
  clear_disk_page(id);
  place.is_fetching = place.is_writing = false;
  enqueue(id);
}

}  // namespace troupe
