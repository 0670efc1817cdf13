// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/copy_plan.hpp"

#include <algorithm>
#include <unordered_set>

#include "gpu/pages/kv_layout.hpp"

namespace troupe {
namespace {

class PageSet {
 public:
  explicit PageSet(std::uint32_t num_pages) : has_(num_pages) {}
  void add(PageId page) {
    if (page < has_.size()) has_[page] = true;
  }
  bool has(PageId page) const { return page < has_.size() && has_[page]; }

 private:
  std::vector<bool> has_;
};

// Calls visit(page, is_written) for the pages that hold a slice's context and
// what it appends.
template <typename Visit>
void for_each_page(const Batch& batch, Visit visit) {
  for (const SequenceSlice& slice : batch.slices) {
    const std::uint64_t length = std::uint64_t{slice.context_length} + slice.num_tokens;
    const std::uint64_t table_size = batch.page_table.size();
    const std::uint64_t in_table = table_size - std::min<std::uint64_t>(slice.first_page, table_size);
    const std::uint64_t end = std::min((length + kKvPageTokens - 1) / kKvPageTokens, in_table);
    const std::uint64_t first_written = slice.context_length / kKvPageTokens;
    for (std::uint64_t i = 0; i < end; ++i) visit(batch.page_table[slice.first_page + i], i >= first_written);
  }
}

// By copy: a store of a page that a later copy or a slice writes over.
std::vector<bool> find_urgent_stores(const Batch& batch, std::uint32_t num_pages) {
  PageSet written_later(num_pages);
  for_each_page(batch, [&](PageId page, bool is_written) {
    if (is_written) written_later.add(page);
  });
  std::vector<bool> is_urgent(batch.copies.size());
  for (std::size_t i = batch.copies.size(); i-- > 0;) {
    const PageCopy& copy = batch.copies[i];
    if (copy.is_store()) {
      is_urgent[i] = written_later.has(copy.device_page);
    } else {
      written_later.add(copy.device_page);
    }
  }
  return is_urgent;
}

}  // namespace

std::vector<CopySegment> plan_copies(const Batch& batch, std::uint32_t num_pages) {
  const std::vector<bool> is_urgent = find_urgent_stores(batch, num_pages);
  std::vector<CopySegment> segments;
  std::unordered_set<std::uint32_t> stored;  // host pages, of the segment
  for (std::size_t i = 0; i < batch.copies.size(); ++i) {
    const PageCopy& copy = batch.copies[i];
    const bool uses_stored = !copy.is_within() && stored.contains(copy.host_page);
    if (segments.empty() || uses_stored) {
      segments.emplace_back();
      stored.clear();
    }
    if (copy.is_store()) stored.insert(copy.host_page);
    const bool can_wait = copy.is_store() && !is_urgent[i];
    (can_wait ? segments.back().afterwards : segments.back().by_layer).push_back(copy);
  }
  return segments;
}

bool must_follow(const std::vector<PageCopy>& copies, const Batch& earlier, std::uint32_t num_pages) {
  PageSet written(num_pages);
  PageSet read(num_pages);
  for (const PageCopy& copy : copies) {
    (copy.is_store() ? read : written).add(copy.device_page);
    if (copy.is_within()) read.add(copy.from_page);
  }
  bool must = false;
  for_each_page(earlier, [&](PageId page, bool is_written) {
    must = must || written.has(page) || (is_written && read.has(page));
  });
  return must;
}

}  // namespace troupe
