// SPDX-License-Identifier: Apache-2.0
#include "actors/disk_thread.hpp"

#include <exception>
#include <system_error>
#include <utility>

#include "telemetry/log.hpp"

namespace troupe {
namespace {

TransferOutcome failed(const DiskTransfer& transfer, const std::exception& error) {
  log(LogLevel::kWarning, "the disk tier can't transfer a KV page",
      {{"disk_page", transfer.disk_page}, {"reason", error.what()}});
  return TransferOutcome::kFailed;
}

}  // namespace

DiskThread::DiskThread(std::unique_ptr<PageFile> file, std::shared_ptr<HostPages> host_pages,
                       std::uint32_t num_pages)
    : file_(std::move(file)),
      host_pages_(std::move(host_pages)),
      num_pages_(num_pages),
      stored_(file_->take_stored()),
      thread_([this] { work(); }) {}

DiskThread::~DiskThread() {
  {
    const std::lock_guard lock(mutex_);
    must_stop_ = true;
  }
  is_needed_.notify_one();
  thread_.join();
}

PageSecret DiskThread::secret() const { return {.k0 = file_->secret()[0], .k1 = file_->secret()[1]}; }

// Where it is unknown nothing has to go.
std::uint32_t DiskThread::num_pages_lacking() const {
  try {
    return file_->num_pages_lacking();
  } catch (const std::system_error& error) {
    log(LogLevel::kWarning, "the space on the disk is unknown", {{"reason", error.what()}});
    return 0;
  }
}

void DiskThread::submit(std::vector<DiskTransfer> transfers) {
  if (transfers.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (DiskTransfer& transfer : transfers) {
      const bool is_read = transfer.direction == DiskTransfer::Direction::kRead;
      (is_read ? reads_ : others_).push_back(std::move(transfer));
    }
  }
  is_needed_.notify_one();
}

std::vector<DiskTier::Done> DiskThread::take_done() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void DiskThread::set_listener(std::function<void()> listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

void DiskThread::work() {
  while (auto transfer = next()) {
    const TransferOutcome outcome = carry_out(*transfer);
    if (transfer->direction == DiskTransfer::Direction::kErase) continue;  // nothing waits for it
    {
      const std::lock_guard lock(mutex_);
      done_.push_back({.transfer = std::move(*transfer), .outcome = outcome});
    }
    const std::lock_guard lock(listener_mutex_);
    if (listener_) listener_();
  }
}

// Waits for it; nullopt: there will be none.
std::optional<DiskTransfer> DiskThread::next() {
  std::unique_lock lock(mutex_);
  is_needed_.wait(lock, [this] { return must_stop_ || !reads_.empty() || !others_.empty(); });
  if (must_stop_) return std::nullopt;
  std::deque<DiskTransfer>& queue = reads_.empty() ? others_ : reads_;
  DiskTransfer transfer = std::move(queue.front());
  queue.pop_front();
  return transfer;
}

TransferOutcome DiskThread::carry_out(const DiskTransfer& transfer) {
  try {
    switch (transfer.direction) {
      case DiskTransfer::Direction::kWrite: return write(transfer);
      case DiskTransfer::Direction::kRead: return read(transfer);
      case DiskTransfer::Direction::kErase: file_->erase(transfer.disk_page); break;
      case DiskTransfer::Direction::kRelease: file_->release(transfer.disk_page); break;
    }
    return TransferOutcome::kDone;
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_space_on_device) return TransferOutcome::kNoRoom;
    return failed(transfer, error);
  } catch (const std::exception& error) {
    return failed(transfer, error);
  }
}

TransferOutcome DiskThread::write(const DiskTransfer& transfer) {
  const auto contents = host_pages_->load(transfer.host_page, transfer.identity.generation);
  if (contents.empty()) return TransferOutcome::kDamaged;
  const bool has_room = file_->write(transfer.disk_page, transfer.identity, contents);
  return has_room ? TransferOutcome::kDone : TransferOutcome::kNoRoom;
}

TransferOutcome DiskThread::read(const DiskTransfer& transfer) {
  const auto contents = host_pages_->begin_store(transfer.host_page);
  if (!file_->read(transfer.disk_page, transfer.identity, contents)) return TransferOutcome::kDamaged;
  host_pages_->finish_store(transfer.host_page, transfer.identity.generation);
  return TransferOutcome::kDone;
}

}  // namespace troupe
