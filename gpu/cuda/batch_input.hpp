// SPDX-License-Identifier: Apache-2.0
// The description of a batch that its kernels read, in one piece of memory that
// goes to the device in one copy: token ids, places, pages, how attention is
// cut, how tokens are drawn. Where each part lies depends on the capacity alone,
// so a captured graph finds everything where it was. Plain code, no device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/cuda/attention_plan.hpp"
#include "gpu/cuda/kernels/attention/paged_attention.hpp"
#include "gpu/cuda/kernels/sampling/sample.hpp"
#include "gpu/operators/batch_rows.hpp"
#include "gpu/operators/cells/node_rows.hpp"
#include "gpu/operators/token_places.hpp"
#include "gpu/program/batch.hpp"

namespace troupe::cuda {

// Room for so many of each.
struct BatchCapacity {
  std::uint32_t tokens = 0;
  std::uint32_t output_rows = 0;
  std::uint32_t pages = 0;  // of the page table
  std::uint32_t suppressed = 0;
  std::uint32_t penalized = 0;
  std::uint32_t biased = 0;
  std::uint32_t mask_words = 0;  // of all masks
  std::array<std::uint32_t, kAttentionClasses.size()> items{};
  std::uint32_t merges = 0;
  // For slices that are whole sequences, else 0.
  std::uint32_t slices = 0;
  std::uint32_t tiles = 0;
  std::uint32_t token_types = 0;
  // For slices that are nodes of graphs, else 0.
  std::uint32_t nodes = 0;
  std::uint32_t input_rows = 0;  // that nodes read, all together
  std::uint32_t state_rows = 0;  // tokens that hand out their state
  auto operator<=>(const BatchCapacity&) const = default;
};

// The parts of one piece of memory, on host or device.
struct BatchInput {
  std::int32_t* token_ids = nullptr;     // [tokens]
  std::uint32_t* slots = nullptr;        // [tokens]: whose last token is the input, or kNoSlot
  TokenPlace* places = nullptr;          // [tokens]
  PageId* previous_pages = nullptr;      // [tokens]: the sequence's page before the place's, or the place's
  std::uint32_t* output_rows = nullptr;  // [output_rows]
  SampleRow* sample_rows = nullptr;      // [output_rows]
  std::int32_t* suppressed = nullptr;    // [suppressed]
  PageId* page_table = nullptr;          // [pages]
  std::array<AttentionItem*, kAttentionClasses.size()> items{};
  PenalizedToken* penalized = nullptr;  // [penalized]
  float* penalized_logits = nullptr;    // [penalized], the kernel's scratch
  TokenBias* biased = nullptr;          // [biased]
  float* biased_logits = nullptr;       // [biased], scratch too
  std::uint32_t* masks = nullptr;       // [mask_words]
  AttentionMerge* merges = nullptr;
  AttentionCounts* counts = nullptr;    // one
  BatchRows* slices = nullptr;          // [slices]
  SelfAttentionTile* tiles = nullptr;   // [tiles]
  std::uint8_t* token_types = nullptr;  // [token_types]: 1 from a slice's second_text on
  NodeRows* nodes = nullptr;            // [nodes]
  std::uint32_t* input_rows = nullptr;  // [input_rows]
  std::uint32_t* state_rows = nullptr;  // [state_rows]

  // Parts of the memory at `base`, which may be null to learn the size.
  static BatchInput at(std::byte* base, const BatchCapacity& capacity);
  static std::size_t size_bytes(const BatchCapacity& capacity);
};

// Padding of rows that only fill up a captured graph: a page and a slot that
// belong to no sequence. Nodes of padding read no row and write the slot's.
struct Padding {
  PageId page = 0;
  SlotId slot = 0;
};

// Slices that hand out a state, where the program has one.
std::uint32_t num_states(const Batch& batch);

// Exactly what a batch needs. The plan is of plan_attention(), or of plan_self_attention()
// where slices are whole sequences, which have no pages: a token's place is its position; or
// it is empty where slices are nodes, which have none.
BatchCapacity capacity_of(const Batch& batch, const AttentionPlan& plan, StateKind state);

// Fills `input`, whose capacity must suffice; tokens and output rows beyond the
// batch's are padding.
void fill(const Batch& batch, const AttentionPlan& plan, const BatchCapacity& capacity,
          const Padding& padding, const BatchInput& input);

}  // namespace troupe::cuda
