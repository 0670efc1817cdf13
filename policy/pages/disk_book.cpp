// SPDX-License-Identifier: Apache-2.0
#include "policy/pages/disk_book.hpp"

#include <algorithm>
#include <utility>

#include "policy/pages/device_book.hpp"

namespace troupe {

DiskBook::DiskBook(const ServingSettings& settings, std::uint32_t num_pages)
    : num_pages_(num_pages), limit_(num_pages), free_(all_free(num_pages)), last_ones_(settings) {}

std::optional<std::uint32_t> DiskBook::take_free() {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t page = free_.back();
  free_.pop_back();
  return page;
}

void DiskBook::occupy(const std::vector<bool>& is_used) {
  std::erase_if(free_, [&](std::uint32_t page) { return is_used[page]; });
}

bool DiskBook::is_under_way(std::uint32_t page, NodeId node) const {
  const auto found = under_way_.find(page);
  return found != under_way_.end() && found->second == node;
}

std::optional<NodeId> DiskBook::end(std::uint32_t page) {
  const auto found = under_way_.find(page);
  if (found == under_way_.end()) return std::nullopt;
  const NodeId node = found->second;
  under_way_.erase(found);
  return node;
}

void DiskBook::queue_discard(std::uint32_t page, Discard discard) {
  if (discard == Discard::kLeft) return;
  using Direction = DiskTransfer::Direction;
  transfers_.push_back({.direction = discard == Discard::kErased ? Direction::kErase : Direction::kRelease,
                        .disk_page = page,
                        .host_page = 0,
                        .identity = {}});
}

void DiskBook::stop_growth(std::uint32_t without_space) {
  std::rotate(free_.begin(), free_.end() - without_space, free_.end());
  limit_ = num_pages_ - num_free();
}

std::vector<DiskTransfer> DiskBook::take_transfers() { return std::exchange(transfers_, {}); }

void DiskBook::list_unwritten(NodeId node) {
  if (node >= is_listed_.size()) is_listed_.resize(std::size_t{node} + 1);
  if (is_listed_[node]) return;
  is_listed_[node] = true;
  unwritten_.push_back(node);
}

NodeId DiskBook::next_unwritten() {
  const NodeId node = unwritten_.front();
  unwritten_.pop_front();
  is_listed_[node] = false;
  return node;
}

void DiskBook::forget(NodeId node) {
  if (node < is_listed_.size()) is_listed_[node] = false;
}

void DiskBook::dequeue(NodeId node) {
  if (last_ones_.contains(node)) last_ones_.erase(node);
}

void DiskBook::change_worth(NodeId node, double worth) {
  if (last_ones_.contains(node)) last_ones_.change_worth(node, worth);
}

std::vector<std::uint32_t> DiskBook::given_up() const {
  std::vector<std::uint32_t> pages;
  for (const auto& [page, node] : under_way_)
    if (node == kNoNode) pages.push_back(page);
  return pages;
}

}  // namespace troupe
