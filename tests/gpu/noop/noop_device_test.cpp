// SPDX-License-Identifier: Apache-2.0
#include "gpu/noop/noop_device.hpp"

#include <stdexcept>

#include <doctest/doctest.h>

#include "gpu/program/mask_slot.hpp"
#include "tests/gpu/generation.hpp"

namespace troupe {
namespace {

NoopDeviceSettings settings() {
  return {.description = {.name = {},
                          .page_size = 32,
                          .num_pages = 10,
                          .num_slots = 4,
                          .max_batch_tokens = 64,
                          .context_length = 100,
                          .vocabulary_size = 50},
          .first_token = 10,
          .num_tokens = 5};
}

std::shared_ptr<const Batch> batch_of(std::uint64_t id, std::uint32_t context_length) {
  auto batch = std::make_shared<Batch>();
  batch->id = id;
  batch->slices.push_back(
      {.num_tokens = 1, .context_length = context_length, .sample = true, .sampling = {}, .suppressed = {}});
  batch->slices.push_back({.num_tokens = 3, .sampling = {}, .suppressed = {}});
  batch->token_ids = {1, 2, 3, 4};
  return batch;
}

}  // namespace

TEST_CASE("no-op device: tokens follow from the position, unsampled slices give none") {
  NoopDevice device(settings());
  const Ticket ticket = device.submit(nullptr, batch_of(7, 11));
  CHECK(ticket == 1);
  const auto result = wait_for(device, ticket);
  CHECK(result.batch_id == 7);
  CHECK(result.error.empty());
  CHECK(result.tokens == std::vector<std::int32_t>{10 + 12 % 5, -1});
}

TEST_CASE("no-op device: suppressed tokens are stepped over") {
  SequenceSlice slice{.num_tokens = 1, .context_length = 4, .sampling = {}, .suppressed = {10, 11}};
  CHECK(noop_token(settings(), slice, {}) == 12);
  slice.suppressed = {10, 11, 12, 13, 14};
  CHECK(noop_token(settings(), slice, {}) == 10);
}

TEST_CASE("no-op device: an immediate one completes inside submit, listener included") {
  auto immediate = settings();
  immediate.immediate = true;
  NoopDevice device(immediate);
  int calls = 0;
  device.set_listener([&] { ++calls; });
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const Ticket ticket = device.submit(nullptr, batch_of(id, 0));
    CHECK(device.completed() == ticket);
    CHECK(calls == static_cast<int>(id));
    CHECK(device.collect(ticket).batch_id == id);
  }
}

TEST_CASE("no-op device: a batch takes the time it was told to") {
  auto slow = settings();
  slow.iteration_time = std::chrono::milliseconds{2};
  slow.token_time = std::chrono::microseconds{250};
  NoopDevice device(slow);
  const auto start = std::chrono::steady_clock::now();
  Ticket last = 0;
  for (std::uint64_t id = 1; id <= 4; ++id) last = device.submit(nullptr, batch_of(id, 0));
  for (Ticket ticket = 1; ticket <= last; ++ticket) {
    CHECK(wait_for(device, ticket).network_nanoseconds == 3'000'000);
  }
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds{12});
}

TEST_CASE("no-op device: iterations that are queued take their time and nothing between them") {
  using std::chrono::microseconds;
  const IterationEnds::TimePoint begin{std::chrono::seconds(7)};
  IterationEnds ends;
  IterationEnds::TimePoint last;
  for (int i = 0; i < 100; ++i) last = ends.next(begin + microseconds(i), microseconds(500));
  CHECK(last == begin + 100 * microseconds(500));
  // One that comes when nothing runs begins then.
  CHECK(ends.next(last + microseconds(300), microseconds(500)) == last + microseconds(800));
}

TEST_CASE("no-op device: a batch without slices completes, and gives no tokens") {
  auto immediate = settings();
  for (const bool is_immediate : {false, true}) {
    immediate.immediate = is_immediate;
    NoopDevice device(immediate);
    auto batch = std::make_shared<Batch>();
    batch->id = 3;
    batch->copies = {{.direction = PageCopy::kStore, .device_page = 0, .host_page = 0, .generation = 1}};
    const auto result = wait_for(device, device.submit(nullptr, batch));
    CHECK(result.batch_id == 3);
    CHECK(result.error.empty());
    CHECK(result.tokens.empty());
  }
}

TEST_CASE("no-op device: it can go while batches are queued") {
  auto slow = settings();
  slow.iteration_time = std::chrono::seconds{100};
  NoopDevice device(slow);
  device.submit(nullptr, batch_of(1, 0));
  device.submit(nullptr, batch_of(2, 0));
  CHECK(device.completed() == 0);
}

TEST_CASE("no-op device: tokens outside the vocabulary are refused") {
  auto wrong = settings();
  wrong.num_tokens = 41;
  CHECK_THROWS_AS(NoopDevice{wrong}, std::runtime_error);
}

TEST_CASE("no-op device: a cell of vectors gives one of length 1 a slice") {
  auto encoder = settings();
  encoder.description.cells = {
      {.name = "noop", .state = StateKind::kNone, .result = ResultKind::kVector, .vector_size = 3}};
  NoopDevice device(encoder);
  Batch batch;
  batch.slices = {{.num_tokens = 2, .sampling = {}, .suppressed = {}},
                  {.num_tokens = 1, .sampling = {}, .suppressed = {}}};
  batch.token_ids = {1, 2, 3};
  const auto result = wait_for(device, device.submit(nullptr, std::make_shared<Batch>(batch)));
  CHECK(result.vectors == std::vector<float>{1, 0, 0, 1, 0, 0});
}

TEST_CASE("no-op device: a draw waits for its mask, and one that has none gives nothing to those behind it") {
  auto patient = settings();
  patient.longest_mask_wait = std::chrono::seconds(30);
  NoopDevice device(patient);
  CHECK(device.description().waits_for_masks);
  std::vector<std::shared_ptr<MaskSlot>> slots;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    auto batch = std::make_shared<Batch>(*batch_of(id, 10 + static_cast<std::uint32_t>(id)));
    batch->slices[0].input_from_slot = true;
    slots.push_back(std::make_shared<MaskSlot>());
    batch->awaited_masks = {slots.back(), nullptr};
    device.submit(nullptr, batch);
  }
  slots[0]->set(std::make_shared<const TokenMask>(TokenMask{1U << 3U}));
  slots[1]->close();
  CHECK(wait_for(device, 1).tokens == std::vector{3, -1});
  CHECK(wait_for(device, 2).tokens == std::vector{kNoMask, -1});
  CHECK(wait_for(device, 3).tokens == std::vector{-1, -1});
  auto immediate = settings();
  immediate.immediate = true;
  CHECK_FALSE(NoopDevice(immediate).description().waits_for_masks);
}

}  // namespace troupe
