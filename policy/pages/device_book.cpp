// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/device_book.hpp"

#include <cassert>
#include <utility>

namespace troupe {

std::vector<std::uint32_t> all_free(std::uint32_t num_pages) {
  std::vector<std::uint32_t> pages;
  pages.reserve(num_pages);
  for (std::uint32_t page = num_pages; page > 0; --page) pages.push_back(page - 1);
  return pages;
}

DeviceBook::DeviceBook(const ServingSettings& settings, std::uint32_t num_pages)
    : num_pages_(num_pages),
      free_(all_free(num_pages)),
      nodes_(num_pages, kNoNode),
      dirty_(settings),
      clean_(settings),
      loose_(settings) {}

std::uint32_t DeviceBook::num_cached() const {
  return static_cast<std::uint32_t>(dirty_.size() + clean_.size());
}

std::uint32_t DeviceBook::num_spare() const { return num_free() + static_cast<std::uint32_t>(clean_.size()); }

std::uint32_t DeviceBook::take_free(QuotaId quota) {
  assert(!free_.empty());
  const std::uint32_t page = free_.back();
  free_.pop_back();
  used_.add(quota);
  return page;
}

void DeviceBook::put_free(std::uint32_t page, QuotaId quota) {
  used_.remove(quota);
  free_.push_back(page);
}

void DeviceBook::change_quota(QuotaId from, QuotaId to) {
  used_.remove(from);
  used_.add(to);
}

void DeviceBook::enqueue(std::uint32_t page, EvictionEntry node, bool is_on_host) {
  nodes_[page] = node.id;
  node.id = page;
  (is_on_host ? clean_ : dirty_).insert(node);
}

void DeviceBook::enqueue_loose(std::uint32_t page, EvictionEntry node) {
  nodes_[page] = node.id;
  node.id = page;
  loose_.insert(node);
}

void DeviceBook::dequeue(std::uint32_t page) {
  for (EvictionQueue* queue : {&dirty_, &clean_, &loose_})
    if (queue->contains(page)) queue->erase(page);
}

void DeviceBook::change_worth(std::uint32_t page, double worth) {
  for (EvictionQueue* queue : {&dirty_, &clean_, &loose_})
    if (queue->contains(page)) queue->change_worth(page, worth);
}

std::optional<std::uint32_t> DeviceBook::next_victim(TimePoint now, const QuotasOver& over) const {
  const auto dirty = dirty_.lowest(now, over);
  const auto clean = clean_.lowest(now, over);
  if (!dirty || !clean) return dirty ? dirty : clean;
  const bool is_dirty_over = over.has(dirty_.quota(*dirty)), is_clean_over = over.has(clean_.quota(*clean));
  if (is_dirty_over != is_clean_over) return is_dirty_over ? dirty : clean;
  return dirty_.value(*dirty, now) < clean_.value(*clean, now) ? dirty : clean;
}

std::vector<PageCopy> DeviceBook::take_copies() { return std::exchange(copies_, {}); }

}  // namespace troupe
