// SPDX-License-Identifier: Apache-2.0
// Runs programs over batches on the calling thread and its helpers, operator by
// operator through the kernels. Owns the state between batches: KV pages, arena
// and the tokens drawn last for each slot. CpuDevice puts a queue in front of
// it; a test or benchmark may call it directly. Only a cell of pages has pages of any
// layer and needs a rotary table.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "gpu/activations.hpp"
#include "gpu/cpu/arena.hpp"
#include "gpu/cpu/batch_copies.hpp"
#include "gpu/cpu/cpu_weights.hpp"
#include "gpu/cpu/kernels/attention/paged_attention.hpp"
#include "gpu/cpu/kernels/attention/rotary_append_kv.hpp"
#include "gpu/cpu/kernels/cells/state_rows.hpp"
#include "gpu/cpu/kernels/sample.hpp"
#include "gpu/cpu/page_copier.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/device.hpp"
#include "gpu/operators/batch_rows.hpp"
#include "gpu/pages/kv_layout.hpp"
#include "gpu/pages/page_memory.hpp"
#include "gpu/program/batch.hpp"
#include "gpu/program/mask_slot.hpp"
#include "gpu/program/program.hpp"

namespace troupe {

// Called after the logits of a batch were computed, on the executor's thread:
// [num_output_rows, vocabulary], valid during the call. For tests.
using LogitsHook = std::function<void(const Batch& batch, std::span<const float> logits)>;

struct ProgramRunnerSettings {
  DeviceDescription description;  // limits that every batch is checked against
  KvLayout kv_layout;
  Activations activations = Activations::kComputed;
  std::size_t num_heads = 0;
  std::size_t row_width = 0;  // floats of a row of state, of which there is one a slot; 0: none
  LogitsHook on_logits = {};
  // The host tier; null: batches have no copies.
  std::shared_ptr<HostPages> host_pages = {};
  std::chrono::nanoseconds longest_mask_wait = MaskSlot::kLongestWait;
  // Fills KV pages and arena with NaN first, so that a test sees any number that
  // is read before it was written.
  bool poison_memory = false;
};

// Memory for the rows of a product in 8 bits, of whichever needs most; 0: rows stay as they are.
std::uint64_t rounded_rows_bytes(std::span<const Program> largest, Activations activations);

// Not thread-safe: one thread calls run().
class ProgramRunner {
 public:
  // `largest`, one a cell, gathered early, fix the arena; weights and tables must fit the programs to come.
  ProgramRunner(ProgramRunnerSettings settings, std::shared_ptr<const CpuWeights> weights,
                RotaryTables rotary, std::span<const Program> largest, ThreadPool& threads);
  ~ProgramRunner();

  // The result of a batch, but for its times. Tokens: one a slice, -1 where none
  // was asked for or the logits allowed none. `copies` are those of the batch's
  // copies, under way: each layer waits for its own; null if there are none. A
  // batch without slices needs no program. Throws std::runtime_error if program
  // or batch do not fit, a copy was impossible or `stop` was raised.
  BatchResult run(const std::shared_ptr<const Program>& program, const Batch& batch,
                  const BatchCopies* copies, const std::atomic<bool>& stop);

  // After a failed batch what its slots would have held may not be read.
  void void_slots(const Batch& batch);

  const Arena& arena() const { return arena_; }
  PageCopier& copier() { return copier_; }  // of the KV pages, for the copy thread

 private:
  struct BoundProgram;
  class Execution;

  void prepare(const Batch& batch);
  void prepare_pages(const Batch& batch);
  void prepare_texts(const Batch& batch);
  void prepare_ranges(const Batch& batch);
  void prepare_nodes(const Batch& batch);
  void add_output_row(const SequenceSlice& slice, std::uint32_t row);
  void take_masks(const Batch& batch);
  void prepare_logprobs();
  const CellType& cell_of(const Batch& batch) const { return settings_.description.cells.at(batch.cell); }
  const BoundProgram& bind(const std::shared_ptr<const Program>& program);
  SampleRow sample_row_of(const SequenceSlice& slice) const;
  void finish(const Batch& batch, BatchResult& result);

  ProgramRunnerSettings settings_;
  std::shared_ptr<const CpuWeights> weights_;
  RotaryTables rotary_;
  ThreadPool& threads_;
  Arena arena_;
  PageMemory kv_pool_;
  PageCopier copier_;
  std::size_t scratch_bytes_ = 0;  // of a thread, for self-attention
  PageMemory scratch_;
  PageMemory rounded_rows_;                // of the product that runs, in 8 bits
  PageMemory state_;                       // rows of state, [slots, row_width]
  std::vector<float> zeros_;               // [row_width]: the state before the first node
  std::vector<std::int32_t> last_tokens_;  // by slot; -1: none
  // [slot][position % kRecentTokens]: what was drawn for which position.
  std::vector<std::array<std::int32_t, kRecentTokens>> recent_tokens_;
  std::map<const Program*, std::unique_ptr<BoundProgram>> bound_;

  // Buffers of the batch that runs, reused to avoid allocation.
  std::vector<std::int32_t> token_ids_;
  std::vector<TokenPlace> places_;
  std::vector<AttentionBlock> attention_blocks_;
  SplitBlocks split_blocks_;
  std::vector<float> partials_;  // of attention's splits
  std::vector<std::uint32_t> output_rows_;
  std::vector<SampleRow> sample_rows_;
  std::vector<std::int32_t> sampled_;
  AwaitedMasks masks_;
  std::vector<TokenLogprobs> logprobs_;  // by output row; empty: not asked for
  std::vector<BatchRows> ranges_;        // of slices that are wholes, or nodes, in order
  std::vector<BatchRows> longest_first_;
  std::vector<std::uint32_t> positions_;  // of tokens in their text
  std::vector<std::uint8_t> types_;       // of tokens: 1 in a second text
  std::vector<float> vectors_;            // [slices, vector_size]
  std::vector<NodeRows> nodes_;           // of slices of a cell of rows
};

}  // namespace troupe
