// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/copy_thread.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

constexpr const char* kStopped = "the device was stopped";

}  // namespace

CopyThread::CopyThread(PageCopier& copier, const LinkSettings& link)
    : copier_(copier), load_link_(link), store_link_(link), thread_([this] { work(); }) {}

CopyThread::~CopyThread() {
  stop();
  thread_.join();
}

std::shared_ptr<BatchCopies> CopyThread::begin(std::shared_ptr<const Batch> batch) {
  std::vector<CopySegment> segments;
  if (!batch->copies.empty()) segments = plan_copies(*batch, copier_.num_pages());
  std::shared_ptr<BatchCopies> copies;
  {
    const std::lock_guard lock(mutex_);
    if (!segments.empty()) {
      copies = std::make_shared<BatchCopies>(std::move(segments), copier_.num_layers(),
                                             last_to_follow(batch->copies));
      queue_.push_back(copies);
    }
    in_flight_.push_back(std::move(batch));
  }
  if (copies) changed_.notify_one();
  return copies;
}

void CopyThread::end_batch() {
  std::shared_ptr<const Batch> ended;  // let go of outside the lock
  bool is_awaited = false;
  {
    const std::lock_guard lock(mutex_);
    ended = std::move(in_flight_.front());
    in_flight_.pop_front();
    ++num_ended_;
    is_awaited = num_ended_ == awaited_end_;
  }
  if (is_awaited) changed_.notify_one();
}

void CopyThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
}

// Batches are numbered from 1 as they begin.
std::uint64_t CopyThread::last_to_follow(const std::vector<PageCopy>& copies) const {
  for (std::size_t i = in_flight_.size(); i > 0; --i)
    if (must_follow(copies, *in_flight_[i - 1], copier_.num_pages())) return num_ended_ + i;
  return 0;
}

void CopyThread::work() {
  while (const auto copies = wait_for_copies()) {
    try {
      copies->finish(make(*copies));
    } catch (const std::exception& error) {
      copies->fail(error.what());
    }
  }
  const std::lock_guard lock(mutex_);
  for (const auto& copies : queue_) copies->fail(kStopped);
}

// Null: stopped.
std::shared_ptr<BatchCopies> CopyThread::wait_for_copies() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
  if (stop_) return nullptr;
  awaited_end_ = queue_.front()->follows();
  has_followed_ = num_ended_ < awaited_end_;
  changed_.wait(lock, [this] { return stop_ || num_ended_ >= awaited_end_; });
  awaited_end_ = 0;
  if (stop_) return nullptr;
  auto copies = std::move(queue_.front());
  queue_.pop_front();
  return copies;
}

// Returns the generations that could not be loaded.
std::vector<std::uint64_t> CopyThread::make(BatchCopies& copies) {
  for (const CopySegment& segment : copies.segments()) {
    copier_.check(segment.by_layer);
    copier_.check(segment.afterwards);
  }
  std::vector<std::uint64_t> failed_loads;
  TimePoint ready = has_followed_ ? TimePoint::clock::now() : copies.submitted();
  for (const CopySegment& segment : copies.segments()) {
    const bool is_last = &segment == &copies.segments().back();
    copy_by_layer(segment, ready, is_last ? &copies : nullptr, failed_loads);
    copy_afterwards(segment, ready);
    ready = TimePoint::clock::now();
  }
  return failed_loads;
}

// The link's clocks run from `ready`, not from when this thread gets to a copy:
// what the link could have done by now is done.
void CopyThread::copy_by_layer(const CopySegment& segment, TimePoint ready, BatchCopies* told,
                               std::vector<std::uint64_t>& failed_loads) {
  std::vector<LayeredCopy> copies;
  copies.reserve(segment.by_layer.size());
  for (const PageCopy& copy : segment.by_layer) copies.emplace_back(copier_, copy);
  for (std::size_t layer = 0; layer < copier_.num_layers(); ++layer) {
    TimePoint stored = ready;  // a layer's loads may overwrite what its stores must have read
    TimePoint done = ready;
    for (LayeredCopy& copy : copies) {
      copy.copy_layer(layer);
      if (copy.page().is_within()) continue;  // takes no link
      if (copy.page().is_store()) {
        stored = store_link_.send(copier_.layer_bytes(), ready);
        done = std::max(done, stored);
      } else {
        done = std::max(done, load_link_.send(copier_.layer_bytes(), stored));
      }
    }
    wait_until(done);
    if (layer + 1 == copier_.num_layers())
      for (LayeredCopy& copy : copies)
        if (!copy.finish()) failed_loads.push_back(copy.page().generation);
    if (told) told->layers_have_arrived(layer + 1);
  }
}

void CopyThread::copy_afterwards(const CopySegment& segment, TimePoint ready) {
  for (const PageCopy& page : segment.afterwards) {
    LayeredCopy copy(copier_, page);
    for (std::size_t layer = 0; layer < copier_.num_layers(); ++layer) copy.copy_layer(layer);
    wait_until(store_link_.send(copier_.num_layers() * copier_.layer_bytes(), ready));
    copy.finish();
  }
}

// Throws if stopped.
void CopyThread::wait_until(TimePoint time) {
  std::unique_lock lock(mutex_);
  if (time > TimePoint::clock::now()) changed_.wait_until(lock, time, [this] { return stop_; });
  if (stop_) throw std::runtime_error(kStopped);
}

}  // namespace troupe
