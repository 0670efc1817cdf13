// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/small_machine.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe {

std::int32_t small_token(std::span<const std::int32_t> context) {
  std::uint64_t hash = context.size();
  for (const std::int32_t token : context) {
    hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
  }
  return static_cast<std::int32_t>(hash % (kSmallVocabulary - 100)) + 100;
}

std::vector<std::int32_t> small_source(std::span<const std::int32_t> source) {
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> all(source.begin(), source.end());
  for (const std::int32_t token : source) {
    all.push_back(token);
    rows.push_back(small_token(all));
  }
  return rows;
}

std::shared_ptr<const TokenMask> small_mask(std::uint32_t position) {
  return std::make_shared<const TokenMask>(TokenMask{position});
}

// Word 1 has a bit: what it says holds from its position on.
SmallFreedom small_freedom(std::uint32_t position, std::int32_t last) {
  TokenMask allowed(mask_words(kSmallVocabulary), ~0U);
  allowed[0] = position;
  allowed[1] = 1;
  TokenMask free = allowed;
  free[static_cast<std::size_t>(last) / 32] &= ~(1U << (last % 32));
  return {std::make_shared<const TokenMask>(std::move(allowed)),
          std::make_shared<const TokenMask>(std::move(free))};
}

std::vector<float> small_vector(std::span<const std::int32_t> input) {
  return {static_cast<float>(std::accumulate(input.begin(), input.end(), 0)),
          static_cast<float>(input.size())};
}

SmallMachine::SmallMachine(const Sizes& sizes, Defect defect)
    : sizes_(sizes),
      defect_(defect),
      workers_(sizes.num_workers),
      host_(sizes.num_host_pages),
      disk_(sizes.num_disk_pages) {}

void SmallMachine::start(WorkerId id, Epoch epoch) {
  workers_[id] = {
      .is_up = true,
      .epoch = epoch,
      .rows = std::vector<std::int32_t>(std::size_t{sizes_.num_device_pages} * sizes_.page_size, kUnwritten),
      .slots = std::vector<std::int32_t>(sizes_.num_slots, kUnwritten),
      .pool = {},
      .queue = {},
      .handed = {}};
  if (sizes_.cells.empty()) return;
  workers_[id].pool.states = workers_[id].pool.drawn =
      std::vector<std::int32_t>(sizes_.num_rows, SmallRows::kUnwritten);
}

void SmallMachine::submit(const SubmitBatch& command) {
  Worker& worker = workers_[command.worker];
  if (!worker.is_up || command.epoch != worker.epoch) return violate("a batch for a device that is gone");
  if (!sizes_.cells.empty()) {
    if (const std::string problem = worker.pool.problem(*command.batch, kMaxBatchTokens); !problem.empty())
      violate(problem);
  } else if (sizes_.encodes) {
    check_inputs(*command.batch);
  } else {
    check(worker, *command.batch);
    if (sizes_.has_sources) check_sources(*command.batch);
  }
  worker.queue.push_back(command);
}

void SmallMachine::check(const Worker& worker, const Batch& batch) {
  std::uint32_t num_tokens = 0;
  for (const SequenceSlice& slice : batch.slices) {
    num_tokens += slice.num_tokens;
    if (slice.num_tokens == 0) violate("a slice without tokens");
    if (slice.slot >= sizes_.num_slots) violate("a slot that there is not");
    if (slice.num_pages * sizes_.page_size < slice.context_length + slice.num_tokens ||
        slice.first_page + slice.num_pages > batch.page_table.size())
      violate("too few pages for a slice");
    for (const SequenceSlice& other : batch.slices)
      if (other.sequence != slice.sequence && other.slot == slice.slot) violate("two sequences in one slot");
    // A source that was found in part is read anew: pages that others have get the same bits again.
    if (!sizes_.has_sources && writes_where_others_read(worker, batch, slice))
      violate("sequence " + std::to_string(slice.sequence) +
              " writes to a page that another one has in a batch");
  }
  if (num_tokens != batch.num_tokens()) violate("a batch with too many or too few token ids");
}

void SmallMachine::check_inputs(const Batch& batch) {
  std::uint32_t num_tokens = 0;
  for (const SequenceSlice& slice : batch.slices) {
    num_tokens += slice.num_tokens;
    if (slice.num_tokens == 0 || slice.context_length > 0) violate("a slice that is no whole input");
    if (slice.num_pages > 0 || slice.sample) violate("an input with a decoder's wishes");
  }
  if (batch.slices.empty() || batch.slices.size() > sizes_.num_slots || !batch.copies.empty() ||
      num_tokens != batch.num_tokens())
    violate("an encoder's batch of the wrong size");
}

// A batch is of one cell: sources, which are whole, or what follows them.
void SmallMachine::check_sources(const Batch& batch) {
  for (const SequenceSlice& slice : batch.slices) {
    if (batch.cell == 0 && (slice.context_length > 0 || slice.source_tokens > 0 || slice.sample))
      violate("a slice that is no whole source");
    if (batch.cell == 1 && (slice.source_tokens == 0 || slice.source_tokens > slice.context_length))
      violate("a slice of an answer without its source");
  }
}

// Does the slice write to a page that another sequence has in this batch, or in one
// in front of it?
bool SmallMachine::writes_where_others_read(const Worker& worker, const Batch& batch,
                                            const SequenceSlice& slice) const {
  const auto meets = [&](const Batch& other) {
    return std::any_of(other.slices.begin(), other.slices.end(), [&](const SequenceSlice& reader) {
      if (reader.sequence == slice.sequence) return false;
      const auto begin = other.page_table.begin() + reader.first_page;
      for (std::uint32_t i = slice.context_length / sizes_.page_size; i < slice.num_pages; ++i)
        if (std::find(begin, begin + reader.num_pages, batch.page_table[slice.first_page + i]) !=
            begin + reader.num_pages)
          return true;
      return false;
    });
  };
  return meets(batch) || std::any_of(worker.queue.begin(), worker.queue.end(),
                                     [&](const SubmitBatch& earlier) { return meets(*earlier.batch); });
}

BatchResult SmallMachine::run_oldest(WorkerId id, bool is_damaged) {
  Worker& worker = workers_[id];
  const SubmitBatch command = std::move(worker.queue.front());
  worker.queue.erase(worker.queue.begin());
  BatchResult result;
  result.batch_id = command.batch_id;
  move(worker, *command.batch, is_damaged, result);
  if (sizes_.cells.empty()) {
    compute_slices(worker, *command.batch, result);
  } else {
    const std::string problem = worker.pool.run(*command.batch, sizes_.cells.at(command.batch->cell),
                                                defect_ == Defect::kLosesRows, result);
    if (!problem.empty()) violate(problem);
  }
  for (const auto& slot : command.batch->awaited_masks) worker.handed.erase(slot.get());
  return result;
}

void SmallMachine::compute_slices(Worker& worker, const Batch& batch, BatchResult& result) {
  std::size_t first_token = 0;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const SequenceSlice& slice = batch.slices[i];
    if (sizes_.encodes) {
      const auto vector = small_vector(std::span(batch.token_ids).subspan(first_token, slice.num_tokens));
      result.vectors.insert(result.vectors.end(), vector.begin(), vector.end());
    } else {
      result.tokens.push_back(compute(worker, batch, i, first_token));
      const bool has_waited = result.tokens.back() == kNoMask;
      result.mask_wait_nanoseconds.push_back(has_waited ? std::chrono::nanoseconds(kMaskWait).count() : 0);
    }
    first_token += slice.num_tokens;
  }
}

bool SmallMachine::lacks_mask(WorkerId id) const {
  const Worker& worker = workers_[id];
  const auto& slots = worker.queue.front().batch->awaited_masks;
  return std::any_of(slots.begin(), slots.end(),
                     [&](const auto& slot) { return slot && !worker.handed.contains(slot.get()); });
}

// To a batch that is gone: nothing comes of it.
void SmallMachine::hand(const HandMask& command) {
  for (Worker& worker : workers_)
    for (const SubmitBatch& submitted : worker.queue)
      for (const auto& slot : submitted.batch->awaited_masks)
        if (slot == command.slot) worker.handed.emplace(slot.get(), command.mask);
}

void SmallMachine::die(WorkerId id, bool has_moved) {
  Worker& worker = workers_[id];
  BatchResult lost;
  if (has_moved && !worker.queue.empty()) move(worker, *worker.queue.front().batch, false, lost);
  worker = {
      .is_up = false, .epoch = worker.epoch, .rows = {}, .slots = {}, .pool = {}, .queue = {}, .handed = {}};
}

void SmallMachine::move(Worker& worker, const Batch& batch, bool is_damaged, BatchResult& result) {
  for (const PageCopy& copy : batch.copies) {
    const auto rows = page(worker, copy.device_page);
    if (copy.is_within()) {
      const auto from = page(worker, copy.from_page);
      if (defect_ != Defect::kDropsCopiesWithin) std::copy(from.begin(), from.end(), rows.begin());
      continue;
    }
    Contents& host = host_.at(copy.host_page);
    if (copy.is_store()) {
      const bool is_void = std::find(rows.begin(), rows.end(), kVoid) != rows.end();
      host = {.generation = is_void ? 0 : copy.generation, .tokens = {rows.begin(), rows.end()}};
    } else if (host.generation == copy.generation && !std::exchange(is_damaged, false)) {
      std::copy(host.tokens.begin(), host.tokens.end(), rows.begin());
    } else {
      std::fill(rows.begin(), rows.end(), kVoid);
      result.failed_loads.push_back(copy.generation);
    }
  }
}

std::int32_t SmallMachine::compute(Worker& worker, const Batch& batch, std::size_t index,
                                   std::size_t first_token) {
  const SequenceSlice& slice = batch.slices[index];
  std::vector<std::int32_t> context;
  for (std::uint32_t i = 0; i < slice.context_length; ++i) context.push_back(row(worker, batch, slice, i));
  const bool is_void = std::find(context.begin(), context.end(), kVoid) != context.end();
  std::vector<std::int32_t> source;
  if (sizes_.has_sources && batch.cell == 0)
    source = small_source(std::span(batch.token_ids).subspan(first_token, slice.num_tokens));
  for (std::uint32_t i = 0; i < slice.num_tokens; ++i) {
    const std::uint32_t position = slice.context_length + i;
    std::int32_t& written = row(worker, batch, slice, position);
    const std::int32_t value = !source.empty()         ? source[i]
                               : slice.input_from_slot ? worker.slots[slice.slot]
                                                       : batch.token_ids[first_token + i];
    const bool is_again = sizes_.has_sources && written == value;
    if (position % sizes_.page_size == 0 && !is_again) std::fill_n(&written, sizes_.page_size, kUnwritten);
    written = is_void ? kVoid : value;
    context.push_back(written);
  }
  if (is_void) return kVoidContext;
  if (!slice.sample) return -1;
  if (slice.input_from_slot && worker.slots[slice.slot] == kUndrawn) return -1;
  if (std::find(context.begin(), context.end(), kUndrawn) != context.end())
    violate("sequence " + std::to_string(slice.sequence) + " reads KV of a token that was never drawn");
  if (!batch.awaited_masks.empty() && batch.awaited_masks[index]) {
    const auto handed = worker.handed.find(batch.awaited_masks[index].get());
    if (handed == worker.handed.end() || !handed->second) {
      worker.slots[slice.slot] = kUndrawn;
      return kNoMask;
    }
    check_mask(*handed->second, slice, context.size());
  } else if (!slice.allowed.empty()) {
    check_mask(slice.allowed, slice, context.size());
  }
  if (std::find(context.begin(), context.end(), kUnwritten) != context.end())
    violate("sequence " + std::to_string(slice.sequence) + " reads KV that was never written");
  const bool strays = context.size() == 3 && context.front() == kStrays && slice.allowed.empty();
  return worker.slots[slice.slot] = strays ? kStray : small_token(context);
}

void SmallMachine::check_mask(const TokenMask& mask, const SequenceSlice& slice, std::size_t position) {
  const bool goes_on = mask.size() > 1 && mask[1] != 0;
  if (goes_on ? mask.front() > position : mask.front() != position)
    violate("sequence " + std::to_string(slice.sequence) + " draws with the mask of another position");
}

std::int32_t& SmallMachine::row(Worker& worker, const Batch& batch, const SequenceSlice& slice,
                                std::uint32_t position) {
  const PageId number = batch.page_table.at(slice.first_page + position / sizes_.page_size);
  return page(worker, number)[position % sizes_.page_size];
}

std::span<std::int32_t> SmallMachine::page(Worker& worker, std::uint32_t page) {
  return std::span(worker.rows).subspan(std::size_t{page} * sizes_.page_size, sizes_.page_size);
}

void SmallMachine::begin(const DiskTransfer& transfer) {
  using enum DiskTransfer::Direction;
  for (const DiskTransfer& other : transfers_)
    if (other.disk_page == transfer.disk_page &&
        (transfer.direction == kRead || transfer.direction == kWrite))
      violate("two transfers of one disk page at once");
  // While it is written, neither its old nor its new contents are there.
  if (transfer.direction != kRead) disk_.at(transfer.disk_page) = {};
  if (transfer.direction == kRead) host_.at(transfer.host_page) = {};
  if (transfer.direction == kRead || transfer.direction == kWrite) transfers_.push_back(transfer);
}

FinishedTransfer SmallMachine::finish(std::size_t index, TransferOutcome outcome) {
  const DiskTransfer transfer = std::move(transfers_[index]);
  transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(index));
  Contents& host = host_.at(transfer.host_page);
  Contents& disk = disk_.at(transfer.disk_page);
  const bool is_read = transfer.direction == DiskTransfer::Direction::kRead;
  if (is_read && host.generation != 0) violate("a host page changed while the disk was read into it");
  if (is_read && disk.generation != transfer.identity.generation)
    violate("a disk page is not what it is said to be");
  if (outcome != TransferOutcome::kDone) return {.transfer = transfer, .outcome = outcome};
  if (!is_read && host.generation != transfer.identity.generation)
    return {.transfer = transfer, .outcome = TransferOutcome::kDamaged};
  (is_read ? host : disk) = is_read ? disk : host;
  return {.transfer = transfer, .outcome = TransferOutcome::kDone};
}

void SmallMachine::poison(WorkerId id, std::span<const std::uint32_t> free_pages,
                          std::span<const PageCopy> pending) {
  Worker& worker = workers_[id];
  const auto names = [](std::span<const PageCopy> copies, std::uint32_t number) {
    return std::any_of(copies.begin(), copies.end(), [number](const PageCopy& copy) {
      return copy.device_page == number || (copy.is_within() && copy.from_page == number);
    });
  };
  for (const std::uint32_t number : free_pages) {
    const bool is_named =
        names(pending, number) ||
        std::any_of(worker.queue.begin(), worker.queue.end(), [&](const SubmitBatch& command) {
          const auto& table = command.batch->page_table;
          return std::find(table.begin(), table.end(), number) != table.end() ||
                 names(command.batch->copies, number);
        });
    const auto rows = page(worker, number);
    if (!is_named) std::fill(rows.begin(), rows.end(), kUnwritten);
  }
}

void SmallMachine::poison_rows(WorkerId id, std::span<const SlotId> free_rows) {
  Worker& worker = workers_[id];
  for (const SlotId row : free_rows) {
    const bool is_named =
        std::any_of(worker.queue.begin(), worker.queue.end(), [&](const SubmitBatch& command) {
          const Batch& batch = *command.batch;
          return std::find(batch.input_rows.begin(), batch.input_rows.end(), row) != batch.input_rows.end() ||
                 std::any_of(batch.slices.begin(), batch.slices.end(),
                             [row](const SequenceSlice& slice) { return slice.slot == row; });
        });
    if (!is_named) worker.pool.poison(row);
  }
}

bool SmallMachine::has_load(const Batch& batch) const {
  return std::any_of(batch.copies.begin(), batch.copies.end(),
                     [](const PageCopy& copy) { return copy.is_load(); });
}

void SmallMachine::violate(const std::string& text) {
  if (violation.empty()) violation = text;
}

}  // namespace troupe
