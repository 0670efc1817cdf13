// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/batch_input.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/cuda/kernels/embed.hpp"

namespace troupe {
namespace {

using cuda::BatchCapacity;
using cuda::BatchInput;

// One sequence that decodes from its slot, one with three tokens of a prompt that
// is not sampled yet, one with two that is.
Batch mixed_batch() {
  Batch batch{.id = 1, .slices = {}, .token_ids = {0, 11, 12, 13, 21, 22}, .page_table = {5, 6, 7, 8}};
  batch.slices.push_back({.sequence = 1,
                          .slot = 3,
                          .num_tokens = 1,
                          .context_length = 40,
                          .first_page = 0,
                          .num_pages = 2,
                          .input_from_slot = true,
                          .sample = true,
                          .sampling = {.temperature = 0.5F},
                          .suppressed = {9, 8}});
  batch.slices.push_back({.sequence = 2,
                          .slot = 0,
                          .num_tokens = 3,
                          .first_page = 2,
                          .num_pages = 1,
                          .sampling = {},
                          .suppressed = {}});
  batch.slices.push_back({.sequence = 3,
                          .slot = 1,
                          .num_tokens = 2,
                          .context_length = 31,
                          .first_page = 2,
                          .num_pages = 2,
                          .sample = true,
                          .sampling = {},
                          .suppressed = {7}});
  return batch;
}

// A copy of the memory that a device would have.
struct Filled {
  std::vector<std::byte> memory;
  BatchInput input;
};

Filled filled(const Batch& batch, const cuda::AttentionPlan& plan, const BatchCapacity& capacity) {
  Filled result;
  result.memory.resize(BatchInput::size_bytes(capacity), std::byte{0xEE});
  result.input = BatchInput::at(result.memory.data(), capacity);
  cuda::fill(batch, plan, capacity, {.page = 99, .slot = 77}, result.input);
  return result;
}

}  // namespace

TEST_CASE("batch input: every token knows its id or its slot, and its place") {
  const Batch batch = mixed_batch();
  const auto plan = cuda::plan_attention(batch.slices, {.group_size = 2});
  const Filled in = filled(batch, plan, cuda::capacity_of(batch, plan, StateKind::kPages));
  CHECK(std::vector(in.input.slots, in.input.slots + 6) ==
        std::vector<std::uint32_t>{3, cuda::kNoSlot, cuda::kNoSlot, cuda::kNoSlot, cuda::kNoSlot,
                                   cuda::kNoSlot});
  CHECK(std::equal(batch.token_ids.begin() + 1, batch.token_ids.end(), in.input.token_ids + 1));
  CHECK(in.input.places[0].position == 40);
  CHECK(in.input.places[0].page == 6);
  CHECK(in.input.places[4].position == 31);
  CHECK(in.input.places[4].page == 7);
  CHECK(in.input.places[5].page == 8);
  CHECK(std::vector(in.input.previous_pages, in.input.previous_pages + 6) ==
        std::vector<PageId>{5, 7, 7, 7, 7, 7});
}

TEST_CASE("batch input: the rows that are sampled know their token, position and what is suppressed") {
  const Batch batch = mixed_batch();
  const auto plan = cuda::plan_attention(batch.slices, {.group_size = 2});
  const Filled in = filled(batch, plan, cuda::capacity_of(batch, plan, StateKind::kPages));
  CHECK(in.input.output_rows[0] == 0);
  CHECK(in.input.output_rows[1] == 5);
  CHECK(in.input.sample_rows[0].position == 41);
  CHECK(in.input.sample_rows[1].position == 33);
  CHECK(in.input.sample_rows[0].slot == 3);
  CHECK(in.input.sample_rows[1].first_suppressed == 2);
  CHECK(std::vector(in.input.suppressed, in.input.suppressed + 3) == std::vector<std::int32_t>{9, 8, 7});
}

TEST_CASE("batch input: rows know their penalized tokens, and their place among log-probabilities") {
  Batch batch = mixed_batch();
  batch.slices[0].penalized = {{4, 1}, {5, 0}};
  batch.slices[0].num_pending = 1;
  batch.slices[1].penalized = {{6, 1}};  // not sampled
  batch.slices[2].penalized = {{7, 3}};
  batch.slices[2].sampling.top_logprobs = 2;
  const auto plan = cuda::plan_attention(batch.slices, {.group_size = 2});
  const auto capacity = cuda::capacity_of(batch, plan, StateKind::kPages);
  CHECK(capacity.penalized == 3);
  const Filled in = filled(batch, plan, capacity);
  CHECK(in.input.sample_rows[0].num_penalized == 2);
  CHECK(in.input.sample_rows[0].num_pending == 1);
  CHECK(in.input.sample_rows[1].first_penalized == 2);
  CHECK(in.input.sample_rows[1].num_penalized == 1);
  CHECK(in.input.sample_rows[1].logprobs_row == 0);
  CHECK(in.input.penalized[2] == PenalizedToken{7, 3});
}

TEST_CASE("batch input: rows know their biases and their masks") {
  Batch batch = mixed_batch();
  batch.slices[0].allowed = {1, 2};
  batch.slices[1].biased = {{.id = 9, .bias = 1.0F}};  // not sampled
  batch.slices[2].biased = {{.id = 4, .bias = 0.5F}};
  batch.slices[2].allowed = {3, 4};
  const auto plan = cuda::plan_attention(batch.slices, {.group_size = 2});
  const auto capacity = cuda::capacity_of(batch, plan, StateKind::kPages);
  CHECK(capacity.biased == 1);
  CHECK(capacity.mask_words == 4);
  const Filled in = filled(batch, plan, capacity);
  CHECK(in.input.sample_rows[0].num_biased == 0);
  CHECK(in.input.sample_rows[0].first_mask_word == 0);
  CHECK(in.input.sample_rows[1].num_biased == 1);
  CHECK(in.input.sample_rows[1].first_mask_word == 2);
  CHECK(in.input.biased[0] == TokenBias{4, 0.5F});
  CHECK(std::vector(in.input.masks, in.input.masks + 4) == std::vector<std::uint32_t>{1, 2, 3, 4});
}

TEST_CASE("batch input: states that are handed out are at the last tokens of what is sampled") {
  Batch batch = mixed_batch();
  for (auto& slice : batch.slices) slice.wants_state = true;  // one of them is not sampled
  const auto plan = cuda::plan_attention(batch.slices, {.group_size = 2});
  BatchCapacity capacity = cuda::capacity_of(batch, plan, StateKind::kPages);
  CHECK(capacity.state_rows == 2);
  CHECK(cuda::num_states(batch) == 2);
  capacity.state_rows = 4;
  const Filled in = filled(batch, plan, capacity);
  CHECK(std::vector(in.input.state_rows, in.input.state_rows + 4) == std::vector<std::uint32_t>{0, 5, 0, 0});
}

TEST_CASE("batch input: rows beyond the batch are nobody's, and none is at another's place") {
  const Batch batch = mixed_batch();
  const auto plan = cuda::plan_attention(batch.slices, {.group_size = 2});
  BatchCapacity capacity = cuda::capacity_of(batch, plan, StateKind::kPages);
  capacity.tokens += 20;
  capacity.output_rows += 5;
  const Filled in = filled(batch, plan, capacity);
  std::set<std::pair<PageId, std::uint32_t>> places;
  for (std::uint32_t i = 0; i < capacity.tokens; ++i) {
    const auto [position, page] = in.input.places[i];
    if (i >= 6) CHECK(page == 99);
    if (i >= 6) CHECK(in.input.previous_pages[i] == 99);
    if (i >= 6) CHECK(in.input.token_ids[i] == -1);
    CHECK(places.insert({page, position % 32}).second);
  }
  for (std::uint32_t i = 2; i < capacity.output_rows; ++i) CHECK(in.input.sample_rows[i].slot == 77);
  CHECK(in.input.counts->merges == plan.merges.size());
}

TEST_CASE(
    "batch input: nodes know their rows, padding writes one of its own, a drawn token is in the row read") {
  Batch batch{.id = 1, .slices = {}, .token_ids = {4, 0}, .page_table = {}, .input_rows = {9, 3, 5}};
  batch.slices.push_back(
      {.slot = 6, .num_tokens = 1, .sampling = {}, .suppressed = {}, .first_input = 0, .num_inputs = 1});
  batch.slices.push_back({.slot = 2,
                          .num_tokens = 1,
                          .input_from_slot = true,
                          .sampling = {},
                          .suppressed = {},
                          .first_input = 1,
                          .num_inputs = 2});
  BatchCapacity capacity = cuda::capacity_of(batch, {}, StateKind::kRows);
  CHECK(capacity.nodes == 2);
  CHECK(capacity.input_rows == 3);
  capacity.tokens = capacity.nodes = 4;
  capacity.input_rows = 4;
  const Filled in = filled(batch, {}, capacity);
  CHECK(std::vector(in.input.slots, in.input.slots + 4) ==
        std::vector<std::uint32_t>{cuda::kNoSlot, 3, cuda::kNoSlot, cuda::kNoSlot});
  CHECK(std::vector(in.input.input_rows, in.input.input_rows + 3) == batch.input_rows);
  const std::uint32_t rows[] = {6, 2, 77, 77}, num_inputs[] = {1, 2, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(in.input.nodes[i].row == rows[i]);
    CHECK(in.input.nodes[i].num_inputs == num_inputs[i]);
  }
  CHECK(in.input.nodes[1].first_input == 1);
}

TEST_CASE("batch input: parts lie apart, in the order of capacity alone") {
  const BatchCapacity capacity{
      .tokens = 3, .output_rows = 2, .pages = 5, .suppressed = 1, .items = {1, 0, 2, 3}, .merges = 4};
  std::vector<std::byte> memory(BatchInput::size_bytes(capacity));
  const BatchInput input = BatchInput::at(memory.data(), capacity);
  const auto end = memory.data() + memory.size();
  CHECK(reinterpret_cast<std::byte*>(input.slots) >= reinterpret_cast<std::byte*>(input.token_ids + 3));
  CHECK(reinterpret_cast<std::byte*>(input.sample_rows) >=
        reinterpret_cast<std::byte*>(input.output_rows + 2));
  CHECK(reinterpret_cast<std::byte*>(input.merges) >= reinterpret_cast<std::byte*>(input.items[3] + 3));
  CHECK(reinterpret_cast<std::byte*>(input.counts + 1) <= end);
}

}  // namespace troupe
