// SPDX-License-Identifier: Apache-2.0
#include "actors/disk_thread.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "gpu/cpu/copy_thread.hpp"
#include "telemetry/log.hpp"
#include "tests/gpu/page_copies.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kNumDiskPages = 8;
using Direction = DiskTransfer::Direction;

// A disk tier behind a small pool's host pages.
struct SmallDisk {
  explicit SmallDisk(std::shared_ptr<HostPages> host) {
    configure_logging(LogLevel::kOff, LogFormat::kText);
    const int descriptor = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY);
    auto file = std::make_unique<PageFile>(
        descriptor, PageFileContents{.fingerprint = {1, 2}, .page_size = 4, .page_bytes = kSmallPageBytes},
        kNumDiskPages);
    ::close(descriptor);
    thread = std::make_unique<DiskThread>(std::move(file), std::move(host), kNumDiskPages);
    thread->set_listener([this] {
      ++num_rings;
      num_rings.notify_one();
    });
  }

  void submit(Direction direction, std::uint32_t disk_page, std::uint32_t host_page,
              std::uint64_t generation) {
    thread->submit({{.direction = direction,
                     .disk_page = disk_page,
                     .host_page = host_page,
                     .identity = {.tenant = 1, .generation = generation, .tokens = {1, 2, 3, 4}}}});
  }
  // Of the one transfer that is under way.
  TransferOutcome wait() {
    while (true) {
      const std::uint32_t seen = num_rings.load();
      const auto done = thread->take_done();
      if (!done.empty()) return done.front().outcome;
      num_rings.wait(seen);
    }
  }
  TransferOutcome run(Direction direction, std::uint32_t disk_page, std::uint32_t host_page,
                      std::uint64_t generation) {
    submit(direction, disk_page, host_page, generation);
    return wait();
  }

  test::TemporaryDirectory directory;
  std::atomic<std::uint32_t> num_rings{0};
  std::unique_ptr<DiskThread> thread;
};

// A page that goes from the device to the host, to the disk, to another host
// page and back to another device page, again and again.
class Journey {
 public:
  Journey(SmallPool& pool, CopyThread& copies, SmallDisk& disk, std::uint32_t number)
      : pool_(pool), copies_(copies), disk_(disk), number_(number), from_(2 * number) {}

  // Sets out on the next of four stages; arrive() waits for its end.
  void set_out() {
    switch (stage_) {
      case 0:
        generation_ += 2;
        pool_.fill(from_, value());
        return copy(store(from_, from_, generation()));
      case 1: return disk_.submit(Direction::kWrite, number_, from_, generation());
      case 2: return disk_.submit(Direction::kRead, number_, from_ + 1, generation());
      default: return copy(load(from_ + 1, from_ + 1, generation()));
    }
  }
  void arrive() {
    if (batch_copies_) {
      CHECK(batch_copies_->wait_for_all().empty());
      copies_.end_batch();
      batch_copies_.reset();
    } else {
      CHECK(disk_.wait() == TransferOutcome::kDone);
    }
    if (stage_ == 3) CHECK(pool_.holds(from_ + 1, value()));
    stage_ = (stage_ + 1) % 4;
  }

 private:
  std::uint64_t generation() const { return generation_ + number_; }
  int value() const { return static_cast<int>(generation() % 100); }
  void copy(const PageCopy& move) {
    auto batch = std::make_shared<Batch>();
    batch->copies = {move};
    batch_copies_ = copies_.begin(std::move(batch));
  }

  SmallPool& pool_;
  CopyThread& copies_;
  SmallDisk& disk_;
  std::uint32_t number_;
  std::uint32_t from_;  // its first page, on the device and on the host
  std::uint64_t generation_ = 2;
  int stage_ = 0;
  std::shared_ptr<BatchCopies> batch_copies_;
};

}  // namespace

TEST_CASE("disk thread: pages go through all tiers while others do, and come back as they were") {
  SmallPool pool;
  CopyThread copies(pool.copier, {});
  SmallDisk disk(pool.host);
  Journey first(pool, copies, disk, 0);
  Journey second(pool, copies, disk, 1);
  // Half a journey ahead: one is copied by the device when the other is by the disk.
  for (int stage = 0; stage < 2; ++stage) {
    second.set_out();
    second.arrive();
  }
  for (int stage = 0; stage < 400; ++stage) {
    first.set_out();
    second.set_out();
    first.arrive();
    second.arrive();
  }
}

TEST_CASE("disk thread: what is not on the host intact does not get to the disk") {
  SmallPool pool;
  REQUIRE(pool.move_in_order({store(0, 0, 5)}).empty());
  SmallDisk disk(pool.host);
  CHECK(disk.run(Direction::kWrite, 0, 0, 6) == TransferOutcome::kDamaged);
  flip_bit(*pool.host, 0, 5, 100);
  CHECK(disk.run(Direction::kWrite, 0, 0, 5) == TransferOutcome::kDamaged);
  CHECK(disk.run(Direction::kRead, 0, 1, 5) == TransferOutcome::kDamaged);
}

TEST_CASE("disk thread: a read that fails leaves a host page that holds nothing") {
  SmallPool pool;
  REQUIRE(pool.move_in_order({store(0, 0, 5), store(1, 1, 6)}).empty());
  SmallDisk disk(pool.host);
  CHECK(disk.run(Direction::kWrite, 0, 0, 5) == TransferOutcome::kDone);
  CHECK(disk.run(Direction::kRead, 0, 1, 7) == TransferOutcome::kDamaged);
  CHECK(pool.host->load(1, 6).empty());
  CHECK(pool.host->load(1, 7).empty());
  CHECK(disk.run(Direction::kRead, 0, 1, 5) == TransferOutcome::kDone);
  CHECK_FALSE(pool.host->load(1, 5).empty());
}

TEST_CASE("disk thread: an erased page is gone, and nobody is told") {
  SmallPool pool;
  REQUIRE(pool.move_in_order({store(0, 0, 5)}).empty());
  SmallDisk disk(pool.host);
  CHECK(disk.run(Direction::kWrite, 3, 0, 5) == TransferOutcome::kDone);
  disk.submit(Direction::kErase, 3, 0, 0);
  // Behind the erasure; reads would overtake it.
  CHECK(disk.run(Direction::kWrite, 4, 0, 5) == TransferOutcome::kDone);
  CHECK(disk.run(Direction::kRead, 3, 1, 5) == TransferOutcome::kDamaged);
}

TEST_CASE("disk thread: it can go with transfers queued") {
  SmallPool pool;
  REQUIRE(pool.move_in_order({store(0, 0, 5)}).empty());
  SmallDisk disk(pool.host);
  for (std::uint32_t page = 0; page < kNumDiskPages; ++page) disk.submit(Direction::kWrite, page, 0, 5);
  disk.thread.reset();
  CHECK_FALSE(pool.host->load(0, 5).empty());
}

}  // namespace troupe
