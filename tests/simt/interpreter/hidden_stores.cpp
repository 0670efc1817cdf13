// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/interpreter/hidden_stores.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::simt {
namespace {

constexpr std::size_t kPageBytes = 4096;  // compared at once: a kernel leaves most of them as they were
constexpr std::size_t kPieceBytes = 64;   // of a page

bool differ(const std::byte* memory, std::span<const std::byte> before) {
  return std::memcmp(memory, before.data(), before.size()) != 0;
}

}  // namespace

void HiddenStores::add_changes(std::byte* memory, std::span<const std::byte> before) {
  for (std::size_t at = 0; at < before.size(); at += kPageBytes) {
    const auto page = before.subspan(at, std::min(kPageBytes, before.size() - at));
    if (differ(memory + at, page)) add_changes_of_page(memory + at, page);
  }
}

void HiddenStores::add_changes_of_page(std::byte* memory, std::span<const std::byte> before) {
  bool is_open = false;  // the last change goes on
  for (std::size_t at = 0; at < before.size(); at += kPieceBytes) {
    const auto piece = before.subspan(at, std::min(kPieceBytes, before.size() - at));
    const bool has_changed = differ(memory + at, piece);
    if (has_changed && !is_open) changes_.push_back({memory + at, {}, {}});
    if (has_changed) {
      auto& kept = changes_.back().before;
      kept.insert(kept.end(), piece.begin(), piece.end());
    }
    is_open = has_changed;
  }
}

void HiddenStores::hide() {
  for (Change& change : changes_) {
    change.after.assign(change.memory, change.memory + change.before.size());
    std::memcpy(change.memory, change.before.data(), change.before.size());
  }
}

bool HiddenStores::show() {
  bool is_untouched = true;
  for (const Change& change : changes_) {
    is_untouched =
        is_untouched && std::memcmp(change.memory, change.before.data(), change.before.size()) == 0;
    std::memcpy(change.memory, change.after.data(), change.after.size());
  }
  return is_untouched;
}

}  // namespace troupe::simt
