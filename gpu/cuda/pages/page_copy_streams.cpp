// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/pages/page_copy_streams.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "gpu/cuda/kernels/page_copy.hpp"
#include "gpu/cuda/pages/copy_overlap.hpp"
#include "gpu/cuda/runtime/cuda_check.hpp"
#include "gpu/pages/page_checksum.hpp"
#include "gpu/program/batch_check.hpp"

namespace troupe::cuda {
namespace {

constexpr unsigned kCheckThreads = 4;
constexpr std::size_t kMinIdBytes = 64 * 1024;  // of page numbers, a batch
constexpr const char* kAbandoned = "the device was stopped";

}  // namespace

struct PageCopyStreams::Load {
  PageCopy copy;
  HostPages::Unchecked found;
  bool is_being_stored = false;  // by a batch that is not finished, or by this one
  bool is_intact = false;        // its checksum is right
};

struct PageCopyStreams::Copying {
  std::shared_ptr<const Batch> batch;
  std::uint64_t number = 0;  // 1, 2, 3 …
  PinnedMemory ids;          // of pages, for the kernels
  std::size_t num_ids = 0;
  std::vector<Event> layers;  // empty: nothing to wait for
  Event loaded, stored, computed;
  std::vector<Load> loads;               // in order
  std::vector<std::uint64_t> checksums;  // of stores, in order
  bool is_checked = false;               // guarded by the mutex
  std::exception_ptr failure;            // of the checker
};

PageCopyStreams::PageCopyStreams(const PageCopySettings& settings, std::shared_ptr<HostPages> host_pages)
    : settings_(settings),
      host_pages_(std::move(host_pages)),
      host_memory_(host_pages_ ? host_pages_->memory() : std::span<std::byte>{}),
      load_stream_(Stream::Priority::kHigh),
      store_stream_(Stream::Priority::kLow),
      void_pages_(settings.layout.num_pages, kKvPageTokens),
      threads_({.num_threads = host_pages_ ? kCheckThreads : 1}) {
  const std::size_t page_bytes = settings.layout.num_layers * kv_page_bytes(settings.layout);
  if (host_pages_ && host_pages_->page_bytes() != page_bytes)
    throw std::runtime_error("host pages of " + std::to_string(host_pages_->page_bytes()) +
                             " bytes for KV pages of " + std::to_string(page_bytes));
  checker_ = std::thread([this] { work(); });
}

PageCopyStreams::~PageCopyStreams() {
  abandon();
  if (checker_.joinable()) checker_.join();
}

void PageCopyStreams::abandon() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

void PageCopyStreams::begin(std::shared_ptr<const Batch> batch, const Stream& compute) {
  check(batch->copies);
  auto copying = std::make_shared<Copying>();
  copying->batch = std::move(batch);
  const auto& copies = copying->batch->copies;
  std::deque<std::shared_ptr<Copying>> earlier;
  {
    const std::lock_guard lock(mutex_);
    earlier = in_flight_;
    copying->number = num_finished_ + in_flight_.size() + 1;
  }
  for (const auto& other : earlier) {
    if (!must_follow(other->batch->copies, *copying->batch, settings_.num_pages)) continue;
    compute.wait_for(other->loaded);
    compute.wait_for(other->stored);
  }
  if (!copies.empty()) {
    wait_until_unused(*copying);
    wait_for_earlier(*copying);
    look_up_loads(*copying);
    copying->ids = take_ids(2 * copies.size() * sizeof(std::uint32_t));
    const auto segments = plan_copies(*copying->batch, settings_.num_pages);
    for (const CopySegment& segment : segments) queue_segment(*copying, segment);
    copying->loaded.record(load_stream_);
    copying->stored.record(store_stream_);
  }
  current_ = copying;
  const std::lock_guard lock(mutex_);
  in_flight_.push_back(copying);
  if (copies.empty()) {
    copying->is_checked = true;
    return;
  }
  to_check_.push_back(std::move(copying));
  changed_.notify_all();
}

void PageCopyStreams::check(const std::vector<PageCopy>& copies) const {
  check_copies(copies, settings_.num_pages, host_pages_ ? host_pages_->num_pages() : 0);
}

// A host page that is stored into was not finished before: its checksum, or who
// has it, would be lost.
void PageCopyStreams::wait_until_unused(const Copying& copying) {
  std::unique_lock lock(mutex_);
  std::uint64_t awaited = 0;
  for (const auto& other : in_flight_)
    for (const PageCopy& used : other->batch->copies)
      if (!used.is_within() && stores_into(copying.batch->copies, used.host_page)) awaited = other->number;
  changed_.wait(lock, [&] { return stop_ || num_finished_ >= awaited; });
  if (stop_) throw std::runtime_error(kAbandoned);
}

// On the device.
void PageCopyStreams::wait_for_earlier(const Copying& copying) {
  std::deque<std::shared_ptr<Copying>> earlier;
  {
    const std::lock_guard lock(mutex_);
    earlier = in_flight_;
  }
  const auto& copies = copying.batch->copies;
  for (const auto& other : earlier) {
    if (must_follow(copies, *other->batch, settings_.num_pages)) {
      load_stream_.wait_for(other->computed);
      store_stream_.wait_for(other->computed);
    }
    if (share_page(copies, other->batch->copies)) {
      load_stream_.wait_for(other->stored);
      store_stream_.wait_for(other->loaded);
    }
  }
}

// In the order of the copies: a page that is stored holds nothing until then.
void PageCopyStreams::look_up_loads(Copying& copying) {
  const auto is_being_stored = [&](const PageCopy& load) {
    const auto is_it = [&](const PageCopy& copy) {
      return copy.is_store() && copy.host_page == load.host_page && copy.generation == load.generation;
    };
    const auto has_it = [&](const std::vector<PageCopy>& copies) {
      return std::any_of(copies.begin(), copies.end(), is_it);
    };
    const std::lock_guard lock(mutex_);
    return has_it(copying.batch->copies) ||
           std::any_of(in_flight_.begin(), in_flight_.end(),
                       [&](const auto& other) { return has_it(other->batch->copies); });
  };
  std::unordered_set<std::uint32_t> loaded;
  for (const PageCopy& copy : copying.batch->copies) {
    if (copy.is_within()) continue;
    if (copy.is_load()) {
      Load load{.copy = copy, .found = host_pages_->find(copy.host_page, copy.generation)};
      if (load.found.bytes.empty()) load.is_being_stored = is_being_stored(copy);
      copying.loads.push_back(load);
      loaded.insert(copy.host_page);
      continue;
    }
    if (loaded.contains(copy.host_page))  // before it is written over
      for (Load& load : copying.loads) check_load(load);
    host_pages_->begin_store(copy.host_page);
  }
}

// Each part of a segment begins when what was queued before is complete; nobody
// waits for what comes afterwards, which waits only for loads of the same pages.
void PageCopyStreams::queue_segment(Copying& copying, const CopySegment& segment) {
  const auto num_layers = static_cast<std::uint32_t>(settings_.layout.num_layers);
  for (const auto& part : stores_first(segment.by_layer)) {
    if (part.front().is_within()) {
      join_streams();
      queue_within(copying, part);
      continue;
    }
    const CopyList stores = list_copies(copying, part, true);
    const CopyList loads = list_copies(copying, part, false);
    join_streams();
    copying.layers.clear();
    for (std::uint32_t layer = 0; layer < num_layers; ++layer) {
      queue_copy(stores, layer, 1, store_stream_);
      if (stores.num_pages > 0) {
        const Event stored;
        stored.record(store_stream_);
        load_stream_.wait_for(stored);
      }
      queue_copy(loads, layer, 1, load_stream_);
      copying.layers.emplace_back();
      copying.layers.back().record(load_stream_);
    }
  }
  if (segment.by_layer.empty() || share_page(segment.by_layer, segment.afterwards)) join_streams();
  queue_copy(list_copies(copying, segment.afterwards, true), 0, num_layers, store_stream_);
}

// Layer by layer: a pool of many gigabytes is wider than a pitched copy may be.
void PageCopyStreams::queue_within(Copying& copying, const std::vector<PageCopy>& copies) {
  const KvLayout& layout = settings_.layout;
  const std::size_t part_bytes = kv_page_bytes(layout);
  for (const PageCopy& copy : copies) {
    if (copy.from_page == copy.device_page) continue;
    for (std::uint32_t layer = 0; layer < layout.num_layers; ++layer)
      CUDA_CHECK(cudaMemcpyAsync(settings_.pool + kv_block_offset(layout, layer, copy.device_page, 0),
                                 settings_.pool + kv_block_offset(layout, layer, copy.from_page, 0),
                                 part_bytes, cudaMemcpyDeviceToDevice, load_stream_.handle()));
  }
  copying.layers.clear();
  for (std::size_t layer = 0; layer < layout.num_layers; ++layer) {
    copying.layers.emplace_back();
    copying.layers.back().record(load_stream_);
  }
}

void PageCopyStreams::join_streams() {
  const Event stored;
  const Event loaded;
  stored.record(store_stream_);
  loaded.record(load_stream_);
  load_stream_.wait_for(stored);
  store_stream_.wait_for(loaded);
}

// The copies in one direction. The numbers of their pages lie in pinned memory that kernels read until the
// batch is done.
PageCopyStreams::CopyList PageCopyStreams::list_copies(Copying& copying, const std::vector<PageCopy>& copies,
                                                       bool to_host) {
  auto* const ids = reinterpret_cast<std::uint32_t*>(copying.ids.get()) + copying.num_ids;
  CopyList list{.pool_pages = ids, .to_host = to_host};
  for (const PageCopy& copy : copies)
    if (copy.is_store() == to_host) ids[list.num_pages++] = copy.device_page;
  list.host_pages = ids + list.num_pages;
  std::size_t end = list.num_pages;
  for (const PageCopy& copy : copies)
    if (copy.is_store() == to_host) ids[end++] = copy.host_page;
  copying.num_ids += end;
  return list;
}

void PageCopyStreams::queue_copy(const CopyList& list, std::uint32_t first_layer, std::uint32_t num_layers,
                                 const Stream& stream) {
  if (list.num_pages == 0) return;
  launch_page_copy({.pool = settings_.pool,
                    .layout = settings_.layout,
                    .pool_pages = list.pool_pages,
                    .pieces = host_memory_.on_device(),
                    .piece_numbers = list.host_pages,
                    .num_pages = list.num_pages,
                    .is_to_pool = !list.to_host,
                    .first_layer = first_layer,
                    .num_layers = num_layers,
                    .max_blocks = kCopyBlocks},
                   stream.handle());
}

void PageCopyStreams::before_layer(std::uint32_t layer, const Stream& compute) {
  if (!current_->layers.empty()) compute.wait_for(current_->layers.at(layer));
}

void PageCopyStreams::before_all_layers(const Stream& compute) {
  if (!current_->layers.empty()) compute.wait_for(current_->layers.back());
}

void PageCopyStreams::end(const Stream& compute) { current_->computed.record(compute); }

// Taken again from batches that are finished: to give pinned memory back would
// wait for the device.
PinnedMemory PageCopyStreams::take_ids(std::size_t size_bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(free_ids_.begin(), free_ids_.end(),
                                    [&](const PinnedMemory& ids) { return ids.size_bytes() >= size_bytes; });
    if (found != free_ids_.end()) {
      PinnedMemory ids = std::move(*found);
      free_ids_.erase(found);
      return ids;
    }
  }
  return PinnedMemory(std::max(size_bytes, kMinIdBytes));
}

PageCopyStreams::Outcome PageCopyStreams::finish() {
  std::shared_ptr<Copying> copying;
  {
    std::unique_lock lock(mutex_);
    copying = in_flight_.front();
    changed_.wait(lock, [&] { return stop_ || copying->is_checked; });
    if (!copying->is_checked) throw std::runtime_error(kAbandoned);
  }
  if (copying->failure) std::rethrow_exception(copying->failure);
  Outcome outcome;
  auto load = copying->loads.begin();
  auto checksum = copying->checksums.begin();
  for (const PageCopy& copy : copying->batch->copies) {
    if (copy.is_store()) {
      // A void page stays on the device: the host page then holds nothing.
      if (!void_pages_.is_void(copy.device_page))
        host_pages_->finish_store(copy.host_page, copy.generation, *checksum);
      ++checksum;
      continue;
    }
    if (copy.is_within()) {
      void_pages_.set(copy.device_page, void_pages_.is_void(copy.from_page));
      continue;
    }
    const bool is_intact = load->is_being_stored
                               ? !host_pages_->find(copy.host_page, copy.generation).bytes.empty()
                               : load->is_intact;
    void_pages_.set(copy.device_page, !is_intact);
    if (!is_intact) outcome.failed_loads.push_back(copy.generation);
    ++load;
  }
  outcome.void_slices = void_pages_.find_slices(*copying->batch);
  {
    const std::lock_guard lock(mutex_);
    in_flight_.pop_front();
    if (copying->ids.size_bytes() > 0) free_ids_.push_back(std::move(copying->ids));
    ++num_finished_;
  }
  changed_.notify_all();
  return outcome;
}

// The checker.
void PageCopyStreams::work() {
  (void)cudaSetDevice(settings_.ordinal);
  while (true) {
    std::shared_ptr<Copying> copying;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !to_check_.empty(); });
      if (stop_) return;
      copying = std::move(to_check_.front());
      to_check_.pop_front();
    }
    try {
      check_loads(*copying);
      copying->loaded.synchronize();
      copying->stored.synchronize();
      check_stores(*copying);
    } catch (...) {
      copying->failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      copying->is_checked = true;
    }
    changed_.notify_all();
  }
}

void PageCopyStreams::check_loads(Copying& copying) {
  threads_.run(copying.loads.size(), [&](std::size_t i) { check_load(copying.loads[i]); });
}

// Looks once.
void PageCopyStreams::check_load(Load& load) {
  const auto found = std::exchange(load.found, {});
  if (found.bytes.empty()) return;
  load.is_intact = page_checksum(found.bytes, load.copy.generation) == found.checksum;
}

void PageCopyStreams::check_stores(Copying& copying) {
  std::vector<PageCopy> stores;
  for (const PageCopy& copy : copying.batch->copies)
    if (copy.is_store()) stores.push_back(copy);
  copying.checksums.resize(stores.size());
  threads_.run(stores.size(), [&](std::size_t i) {
    const std::size_t size = host_pages_->page_bytes();
    const auto page = host_pages_->memory().subspan(stores[i].host_page * size, size);
    copying.checksums[i] = page_checksum(page, stores[i].generation);
  });
}

}  // namespace troupe::cuda
