// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/pages/copy_overlap.hpp"

#include <algorithm>
#include <unordered_set>

namespace troupe::cuda {

bool share_page(const std::vector<PageCopy>& left, const std::vector<PageCopy>& right) {
  std::unordered_set<std::uint32_t> device_pages;
  std::unordered_set<std::uint32_t> host_pages;
  for (const PageCopy& move : left) {
    device_pages.insert(move.device_page);
    if (move.is_within()) {
      device_pages.insert(move.from_page);
    } else {
      host_pages.insert(move.host_page);
    }
  }
  return std::any_of(right.begin(), right.end(), [&](const PageCopy& move) {
    return device_pages.contains(move.device_page) ||
           (move.is_within() ? device_pages.contains(move.from_page) : host_pages.contains(move.host_page));
  });
}

bool stores_into(const std::vector<PageCopy>& moves, std::uint32_t host_page) {
  return std::any_of(moves.begin(), moves.end(),
                     [&](const PageCopy& move) { return move.is_store() && move.host_page == host_page; });
}

std::vector<std::vector<PageCopy>> stores_first(const std::vector<PageCopy>& moves) {
  std::vector<std::vector<PageCopy>> parts(moves.empty() ? 0 : 1);
  std::unordered_set<std::uint32_t> device_pages;  // of the part's loads
  std::unordered_set<std::uint32_t> host_pages;
  for (const PageCopy& move : moves) {
    const bool is_of_another_kind =
        !parts.back().empty() && move.is_within() != parts.back().front().is_within();
    const bool would_overtake =
        move.is_store() && (device_pages.contains(move.device_page) || host_pages.contains(move.host_page));
    if (is_of_another_kind || would_overtake) {
      parts.emplace_back();
      device_pages.clear();
      host_pages.clear();
    }
    if (move.is_load()) {
      device_pages.insert(move.device_page);
      host_pages.insert(move.host_page);
    }
    parts.back().push_back(move);
  }
  return parts;
}

}  // namespace troupe::cuda
