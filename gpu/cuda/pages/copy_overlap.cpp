// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/pages/copy_overlap.hpp"

#include <algorithm>
#include <unordered_set>

namespace troupe::cuda {

bool share_page(const std::vector<PageCopy>& left, const std::vector<PageCopy>& right) {
  std::unordered_set<std::uint32_t> device_pages;
  std::unordered_set<std::uint32_t> host_pages;
  for (const PageCopy& copy : left) {
    device_pages.insert(copy.device_page);
    if (copy.is_within()) {
      device_pages.insert(copy.from_page);
    } else {
      host_pages.insert(copy.host_page);
    }
  }
  return std::any_of(right.begin(), right.end(), [&](const PageCopy& copy) {
    return device_pages.contains(copy.device_page) ||
           (copy.is_within() ? device_pages.contains(copy.from_page) : host_pages.contains(copy.host_page));
  });
}

bool stores_into(const std::vector<PageCopy>& copies, std::uint32_t host_page) {
  return std::any_of(copies.begin(), copies.end(),
                     [&](const PageCopy& copy) { return copy.is_store() && copy.host_page == host_page; });
}

std::vector<std::vector<PageCopy>> stores_first(const std::vector<PageCopy>& copies) {
  std::vector<std::vector<PageCopy>> parts(copies.empty() ? 0 : 1);
  std::unordered_set<std::uint32_t> device_pages;  // of the part's loads
  std::unordered_set<std::uint32_t> host_pages;
  for (const PageCopy& copy : copies) {
    const bool is_of_another_kind =
        !parts.back().empty() && copy.is_within() != parts.back().front().is_within();
    const bool would_overtake =
        copy.is_store() && (device_pages.contains(copy.device_page) || host_pages.contains(copy.host_page));
    if (is_of_another_kind || would_overtake) {
      parts.emplace_back();
      device_pages.clear();
      host_pages.clear();
    }
    if (copy.is_load()) {
      device_pages.insert(copy.device_page);
      host_pages.insert(copy.host_page);
    }
    parts.back().push_back(copy);
  }
  return parts;
}

}  // namespace troupe::cuda
