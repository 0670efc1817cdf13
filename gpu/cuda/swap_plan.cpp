// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/swap_plan.hpp"

#include <algorithm>
#include <unordered_set>

namespace troupe::cuda {

bool share_page(const std::vector<PageMove>& left, const std::vector<PageMove>& right) {
  std::unordered_set<std::uint32_t> device_pages;
  std::unordered_set<std::uint32_t> host_pages;
  for (const PageMove& move : left) {
    device_pages.insert(move.device_page);
    host_pages.insert(move.host_page);
  }
  return std::any_of(right.begin(), right.end(), [&](const PageMove& move) {
    return device_pages.contains(move.device_page) || host_pages.contains(move.host_page);
  });
}

bool stores_into(const std::vector<PageMove>& moves, std::uint32_t host_page) {
  return std::any_of(moves.begin(), moves.end(),
                     [&](const PageMove& move) { return move.to_host && move.host_page == host_page; });
}

std::vector<std::vector<PageMove>> stores_first(const std::vector<PageMove>& moves) {
  std::vector<std::vector<PageMove>> parts(moves.empty() ? 0 : 1);
  std::unordered_set<std::uint32_t> device_pages;  // of the part's loads
  std::unordered_set<std::uint32_t> host_pages;
  for (const PageMove& move : moves) {
    if (move.to_host && (device_pages.contains(move.device_page) || host_pages.contains(move.host_page))) {
      parts.emplace_back();
      device_pages.clear();
      host_pages.clear();
    }
    if (!move.to_host) {
      device_pages.insert(move.device_page);
      host_pages.insert(move.host_page);
    }
    parts.back().push_back(move);
  }
  return parts;
}

}  // namespace troupe::cuda
