// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/lease_book.hpp"

#include <cassert>

namespace troupe {
namespace {

constexpr std::size_t kFewEntries = 16;

}  // namespace

std::size_t LeaseBook::place_of(LeaseId id) const {
  std::size_t place = home_of(id);
  while (entries_[place].is_used() && entries_[place].id != id) place = (place + 1) & (entries_.size() - 1);
  return place;
}

PageLease* LeaseBook::find(LeaseId id) {
  if (num_leases_ == 0) return nullptr;
  const Entry& entry = entries_[place_of(id)];
  return entry.is_used() ? &leases_[entry.lease] : nullptr;
}

void LeaseBook::add(LeaseId id, PageLease lease) {
  if (2 * (num_leases_ + 1) > entries_.size()) grow();
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(leases_.size()));
    leases_.emplace_back();
  }
  Entry& entry = entries_[place_of(id)];
  assert(!entry.is_used());
  entry = {.id = id, .lease = free_.back()};
  leases_[entry.lease] = std::move(lease);
  free_.pop_back();
  num_leases_ += 1;
}

void LeaseBook::grow() {
  const std::vector<Entry> before = std::exchange(entries_, {});
  entries_.resize(before.empty() ? kFewEntries : 2 * before.size());
  shift_ = 64;
  for (std::size_t size = entries_.size(); size > 1; size /= 2) shift_ -= 1;
  for (const Entry& entry : before)
    if (entry.is_used()) entries_[place_of(entry.id)] = entry;
}

std::optional<PageLease> LeaseBook::take(LeaseId id) {
  if (!contains(id)) return std::nullopt;
  const std::size_t place = place_of(id);
  const std::uint32_t index = entries_[place].lease;
  remove(place);
  return std::exchange(leases_[index], {});
}

std::vector<PageLease> LeaseBook::take_all_of(WorkerIndex worker) {
  std::vector<PageLease> taken;
  for (const auto& [id, lease] : all())
    if (lease->worker == worker) taken.push_back(*take(id));
  return taken;
}

std::vector<std::pair<LeaseId, const PageLease*>> LeaseBook::all() const {
  std::vector<std::pair<LeaseId, const PageLease*>> leases;
  for (const Entry& entry : entries_)
    if (entry.is_used()) leases.emplace_back(entry.id, &leases_[entry.lease]);
  return leases;
}

// Entries behind it that are not where their ids lead to close up, so that none is cut off.
void LeaseBook::remove(std::size_t place) {
  free_.push_back(entries_[place].lease);
  num_leases_ -= 1;
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t next = (place + 1) & mask; entries_[next].is_used(); next = (next + 1) & mask) {
    const std::size_t distance = (next - home_of(entries_[next].id)) & mask;
    if (distance < ((next - place) & mask)) continue;
    entries_[place] = entries_[next];
    place = next;
  }
  entries_[place] = {};
}

}  // namespace troupe
