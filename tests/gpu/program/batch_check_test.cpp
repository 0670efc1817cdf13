// SPDX-License-Identifier: Apache-2.0
// What concerns cells; batches of a decoder are in cpu_device_test.cpp.
#include "gpu/program/batch_check.hpp"

#include <functional>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "gpu/program/mask_slot.hpp"

namespace troupe {
namespace {

DeviceDescription an_encoder() {
  return {.name = "encoder",
          .page_size = 32,
          .num_slots = 4,
          .max_batch_tokens = 64,
          .context_length = 16,
          .vocabulary_size = 100,
          .cells = {{.name = "encoder_pass",
                     .state = StateKind::kNone,
                     .result = ResultKind::kVector,
                     .vector_size = 8}}};
}

Batch two_texts() {
  Batch batch;
  batch.token_ids = {1, 2, 3, 4, 5};
  batch.slices.resize(2);
  batch.slices[0].num_tokens = 2;
  batch.slices[1].num_tokens = 3;
  return batch;
}

DeviceDescription cells_of_rows() {
  return {.name = "cells",
          .num_slots = 4,
          .max_batch_tokens = 64,
          .context_length = 16,
          .vocabulary_size = 100,
          .cells = {
              {.name = "step", .state = StateKind::kRows, .result = ResultKind::kToken},
              {.name = "tree", .state = StateKind::kRows, .result = ResultKind::kVector, .vector_size = 8}}};
}

// Node 0 reads row 1 and writes it, node 1 reads row 3 and writes row 2.
Batch two_nodes() {
  Batch batch;
  batch.token_ids = {1, 2};
  batch.input_rows = {1, 3};
  for (const SlotId row : {1U, 2U}) {
    SequenceSlice slice;
    slice.sequence = 8 + row;
    slice.slot = row;
    slice.num_tokens = 1;
    slice.first_input = row - 1;
    slice.num_inputs = 1;
    batch.slices.push_back(slice);
  }
  return batch;
}

std::string problem_of(const Batch& batch, const DeviceDescription& limits, CellId of_program = 0) {
  const Program program{.cell = of_program, .shape = {64, 4}, .tensors = {}, .operators = {}};
  try {
    check_batch(&program, batch, limits);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("batch check: a slice of a stateless cell is a whole sequence and nothing else") {
  CHECK(problem_of(two_texts(), an_encoder()) == "");
  const auto problem = [](const std::function<void(SequenceSlice&)>& spoil) {
    Batch batch = two_texts();
    batch.slices[1].sequence = 9;
    spoil(batch.slices[1]);
    return problem_of(batch, an_encoder());
  };
  CHECK(problem([](auto& slice) { slice.context_length = 1; }) ==
        "sequence 9: a context of 1 tokens, but the cell \"encoder_pass\" keeps none");
  CHECK(problem([](auto& slice) { slice.num_pages = 1; }) ==
        "sequence 9: 1 pages, but the cell \"encoder_pass\" has none");
  CHECK(problem([](auto& slice) { slice.input_from_slot = true; }) ==
        "sequence 9: the input comes from the slot, but the cell \"encoder_pass\" has none");
  CHECK(problem([](auto& slice) { slice.sample = true; }) ==
        "sequence 9: a token is to be drawn, but the cell \"encoder_pass\" gives none");
  CHECK(problem([](auto& slice) { slice.num_tokens = 0; }) == "sequence 9: a slice without tokens");
  CHECK(problem([](auto& slice) { slice.num_padding = 2; }) == "");
  CHECK(problem([](auto& slice) { slice.num_padding = 3; }) ==
        "sequence 9: 3 of its 3 tokens are padding, at least one must be none");
  CHECK(problem([](auto& slice) { slice.num_padding = slice.second_text = 1; }) == "");
  CHECK(problem([](auto& slice) {
          slice.num_padding = 1;
          slice.second_text = 2;
        }) == "sequence 9: a second text from token 2 on, but it has 2");
  CHECK(problem([](auto& slice) { slice.slot = 1000; }) == "");  // it has none
}

TEST_CASE("batch check: a node has one token, rows that exist, and no other's row") {
  CHECK(problem_of(two_nodes(), cells_of_rows()) == "");
  const auto problem = [](const std::function<void(Batch&)>& spoil, CellId cell = 0) {
    Batch batch = two_nodes();
    batch.cell = cell;
    spoil(batch);
    return problem_of(batch, cells_of_rows(), cell);
  };
  CHECK(problem([](auto& batch) { batch.slices[1].num_tokens = 2; }) ==
        "sequence 10: 2 tokens in a node, which has one");
  CHECK(problem([](auto& batch) { batch.slices[1].slot = 4; }) == "sequence 10: slot 4 does not exist");
  CHECK(problem([](auto& batch) { batch.slices[0].num_padding = 1; }) ==
        "sequence 9: padding, which only encoders have");
  CHECK(problem([](auto& batch) { batch.input_rows[1] = 4; }) == "sequence 10: row 4 does not exist");
  CHECK(problem([](auto& batch) { batch.slices[1].num_inputs = 2; }) ==
        "sequence 10: its input rows are not in the batch");
  CHECK(problem([](auto& batch) { batch.slices[1].slot = 1; }) ==
        "sequence 10: row 1 is another node's, too");
  CHECK(problem([](auto& batch) { batch.input_rows[1] = 1; }) ==
        "sequence 10: row 1 is written in the same batch");
  CHECK(problem([](auto& batch) { batch.slices[1].num_pages = 1; }) ==
        "sequence 10: pages, but the cell \"step\" keeps rows");
  CHECK(problem([](auto& batch) {
          batch.slices[1].num_inputs = 0;
          batch.slices[1].input_from_slot = true;
        }) == "sequence 10: the input comes from an input row, but the node has none");
  CHECK(problem([](auto& batch) { batch.slices[1].sample = true; }, 1) ==
        "sequence 10: a token is to be drawn, but the cell \"tree\" gives none");
}

TEST_CASE("batch check: a sequence that is longer than the model's positions is refused") {
  Batch batch = two_texts();
  batch.slices[1].num_tokens = 16;
  batch.token_ids.assign(18, 1);
  CHECK(problem_of(batch, an_encoder()) == "");
  batch.slices[1].num_tokens = 17;
  batch.token_ids.assign(19, 1);
  CHECK(problem_of(batch, an_encoder()) == "sequence 0: 17 tokens, at most 16 are possible");
}

TEST_CASE("batch check: a cell must exist, and be the program's") {
  Batch batch = two_texts();
  batch.cell = 1;
  CHECK(problem_of(batch, an_encoder(), 1) == "cell 1 does not exist: the network has 1");
  DeviceDescription two_cells = an_encoder();
  two_cells.cells.push_back(two_cells.cells[0]);
  CHECK(problem_of(batch, two_cells, 1) == "");
  CHECK(problem_of(batch, two_cells, 0) == "a batch of cell 1, but a program of cell 0");
  batch.slices.clear();
  batch.token_ids.clear();
  CHECK(problem_of(batch, an_encoder()) == "cell 1 does not exist: the network has 1");
}

TEST_CASE("batch check: tokens outside the vocabulary and pages that no device has are refused") {
  Batch batch = two_texts();
  batch.token_ids[4] = 100;
  CHECK(problem_of(batch, an_encoder()).find("outside the vocabulary of 100") != std::string::npos);
  batch = two_texts();
  batch.page_table = {0};
  CHECK(problem_of(batch, an_encoder()) == "page 0 does not exist");
}

TEST_CASE("batch check: masks that are not there yet are for draws, on a device that waits for them") {
  DeviceDescription device = cells_of_rows();
  Batch batch = two_nodes();
  batch.awaited_masks.resize(2);
  CHECK(problem_of(batch, device) == "masks that are not there yet, and this device does not wait for them");
  device.waits_for_masks = true;
  batch.slices[1].sample = true;
  batch.awaited_masks[1] = std::make_shared<MaskSlot>();
  CHECK(problem_of(batch, device) == "");
  batch.slices[1].sample = false;
  CHECK(problem_of(batch, device) == "sequence 10: a mask to wait for, and nothing to draw");
  batch.awaited_masks.resize(1);
  CHECK(problem_of(batch, device) == "1 masks to wait for, but 2 slices");
}

}  // namespace troupe
