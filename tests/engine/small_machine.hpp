// SPDX-License-Identifier: Apache-2.0
// The memory that a model has on a small machine: devices, host and disk. A KV row holds
// the token id that was written through a page table, and the next token is a hash of
// the whole context as read back: a page that is wrong, stale or foreign gives a wrong
// token. The rows of a source, which is read as a whole, hang on all of it. A model that encodes has
// devices only; an input's vector is its tokens' sum and their number. So has a model of cells that keep
// rows (tests/engine/small_cells.hpp). A value; nothing happens in it by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/command.hpp"
#include "gpu/program/mask_slot.hpp"
#include "tests/engine/small_cells.hpp"

namespace troupe {

// The token that follows these, as the small model has it.
std::int32_t small_token(std::span<const std::int32_t> context);
inline constexpr std::uint32_t kSmallVocabulary = 1U << 16;
// The mask of a guided sequence's token at this position: it says only which it is for.
std::shared_ptr<const TokenMask> small_mask(std::uint32_t position);
// The masks from this position on: all tokens but `last` and kStray are free; `last` is allowed.
struct SmallFreedom {
  std::shared_ptr<const TokenMask> allowed, free;
};
SmallFreedom small_freedom(std::uint32_t position, std::int32_t last);
// A context that begins with kStrays: the token behind three is kStray where it is drawn without a mask.
inline constexpr std::int32_t kStrays = 77, kStray = 50;
// The KV rows that an encoder leaves of a source.
std::vector<std::int32_t> small_source(std::span<const std::int32_t> source);
// The vector of an input.
std::vector<float> small_vector(std::span<const std::int32_t> input);

class SmallMachine {
 public:
  struct Sizes {
    std::uint32_t num_workers = 2, page_size = 2, num_slots = 2;
    std::uint32_t num_device_pages = 4, num_host_pages = 4, num_disk_pages = 0;
    std::uint32_t num_rows = 6;  // in place of slots and pages, of a model of cells
    bool encodes = false, has_sources = false;
    std::vector<CellType> cells = {};  // not empty: a model of these, which keep rows
  };
  // A defect of the model, to see that it is found.
  enum class Defect : std::uint8_t { kNone, kDropsCopiesWithin, kNeverReports, kLosesRows };

  static constexpr std::uint32_t kMaxBatchTokens = 4;  // of all but an encoder
  static constexpr std::int32_t kUnwritten = -1;
  static constexpr std::int32_t kVoid = -2;     // of a page whose load failed
  static constexpr std::int32_t kUndrawn = -3;  // of a token that is no one's: the draw had no mask
  // A draw without its mask is said to have held the others up for so long: a second one makes a guide slow.
  static constexpr std::chrono::milliseconds kMaskWait{30};

  struct Contents {
    std::uint64_t generation = 0;
    std::vector<std::int32_t> tokens;
  };
  struct Worker {
    bool is_up = false;
    Epoch epoch = 0;
    std::vector<std::int32_t> rows;   // page_size a page
    std::vector<std::int32_t> slots;  // the last token drawn for each
    SmallRows pool;                   // of a model of cells
    std::vector<SubmitBatch> queue;   // in order
    std::map<const MaskSlot*, std::shared_ptr<const TokenMask>>
        handed;  // to batches in the queue; null: closed
  };

  SmallMachine(const Sizes& sizes, Defect defect);

  const Sizes& sizes() const { return sizes_; }
  const Worker& worker(WorkerId id) const { return workers_[id]; }
  const std::vector<Contents>& host() const { return host_; }
  const std::vector<Contents>& disk() const { return disk_; }
  const std::vector<DiskTransfer>& transfers() const { return transfers_; }

  void start(WorkerId id, Epoch epoch);
  void submit(const SubmitBatch& command);
  // The oldest batch. is_damaged: its first load fails its check.
  BatchResult run_oldest(WorkerId id, bool is_damaged);
  // Does its oldest batch await a mask that was not handed over yet? Run now, it draws nothing for that.
  bool lacks_mask(WorkerId id) const;
  void hand(const HandMask& command);
  // The device goes with all that it was to do. has_moved: it made the copies of its
  // oldest batch before it went.
  void die(WorkerId id, bool has_moved);

  void begin(const DiskTransfer& transfer);
  FinishedTransfer finish(std::size_t index, TransferOutcome outcome);  // of transfers()

  // Overwrites what is in pages that are free and that no batch still names.
  void poison(WorkerId id, std::span<const std::uint32_t> free_pages, std::span<const PageCopy> pending);
  void poison_rows(WorkerId id, std::span<const SlotId> free_rows);
  bool has_load(const Batch& batch) const;

  // The first thing that went wrong; empty: nothing did.
  std::string violation;

 private:
  void check(const Worker& worker, const Batch& batch);
  void check_inputs(const Batch& batch);
  void check_sources(const Batch& batch);
  bool writes_where_others_read(const Worker& worker, const Batch& batch, const SequenceSlice& slice) const;
  void move(Worker& worker, const Batch& batch, bool is_damaged, BatchResult& result);
  void check_mask(const TokenMask& mask, const SequenceSlice& slice, std::size_t position);
  void compute_slices(Worker& worker, const Batch& batch, BatchResult& result);
  std::int32_t compute(Worker& worker, const Batch& batch, std::size_t index, std::size_t first_token);
  std::int32_t& row(Worker& worker, const Batch& batch, const SequenceSlice& slice, std::uint32_t position);
  std::span<std::int32_t> page(Worker& worker, std::uint32_t page);
  void violate(const std::string& text);

  Sizes sizes_;
  Defect defect_;
  std::vector<Worker> workers_;
  std::vector<Contents> host_, disk_;
  std::vector<DiskTransfer> transfers_;  // under way
};

}  // namespace troupe
