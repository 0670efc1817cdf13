// SPDX-License-Identifier: Apache-2.0
// The disk tier of a real server: one thread that transfers pages between the host
// tier's memory and a page file. It touches a host page only between the order
// to transfer it and the word that it is done; the giver of the orders sees to it
// that nothing else does meanwhile.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "actors/disk_tier.hpp"
#include "gpu/pages/host_pages.hpp"
#include "store/page_file.hpp"

namespace troupe {

class DiskThread final : public DiskTier {
 public:
  // Their pages must have the same size.
  DiskThread(std::unique_ptr<PageFile> file, std::shared_ptr<HostPages> host_pages, std::uint32_t num_pages);
  // Finishes the transfer at hand; those behind it are not done.
  ~DiskThread() override;

  std::uint32_t num_pages() const override { return num_pages_; }
  PageSecret secret() const override;
  std::uint64_t first_generation() const override { return file_->first_generation(); }
  std::vector<StoredPage> take_stored() override { return std::move(stored_); }
  std::uint32_t num_pages_lacking() const override;
  void submit(std::vector<DiskTransfer> transfers) override;
  std::vector<Done> take_done() override;
  void set_listener(std::function<void()> listener) override;

 private:
  void work();
  std::optional<DiskTransfer> next();
  TransferOutcome carry_out(const DiskTransfer& transfer);
  TransferOutcome write(const DiskTransfer& transfer);
  TransferOutcome read(const DiskTransfer& transfer);

  std::unique_ptr<PageFile> file_;
  std::shared_ptr<HostPages> host_pages_;
  std::uint32_t num_pages_;
  std::vector<StoredPage> stored_;

  std::mutex mutex_;
  std::condition_variable is_needed_;
  bool must_stop_ = false;
  std::deque<DiskTransfer> reads_, others_;
  std::vector<Done> done_;
  std::mutex listener_mutex_;
  std::function<void()> listener_;
  std::thread thread_;
};

}  // namespace troupe
