// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/mask_slot.hpp"

#include <thread>

#include <doctest/doctest.h>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

std::shared_ptr<const TokenMask> mask_of(std::uint32_t word) {
  return std::make_shared<const TokenMask>(TokenMask{word});
}

// Slices that all await masks.
Batch awaiting(std::size_t num_slices) {
  Batch batch;
  batch.slices.resize(num_slices);
  for (std::size_t i = 0; i < num_slices; ++i) batch.awaited_masks.push_back(std::make_shared<MaskSlot>());
  return batch;
}

}  // namespace

TEST_CASE("mask slot: what is set first is found, and nothing after that counts") {
  MaskSlot slot;
  slot.set(mask_of(5));
  slot.set(mask_of(6));
  slot.close();
  CHECK(*slot.wait(Clock::now() + std::chrono::hours(1)) == TokenMask{5});
}

TEST_CASE("mask slot: one that is closed has none, however long is left to wait") {
  MaskSlot slot;
  slot.close();
  slot.set(mask_of(5));
  CHECK(slot.wait(Clock::now() + std::chrono::hours(1)) == nullptr);
}

TEST_CASE(
    "mask slot: it is waited for until the deadline, and a mask that comes behind that is for the next") {
  MaskSlot slot;
  CHECK(slot.wait({}) == nullptr);
  CHECK(slot.wait(Clock::now() + std::chrono::microseconds(100)) == nullptr);
  slot.set(mask_of(5));
  CHECK(slot.wait({}) != nullptr);
}

TEST_CASE("mask slot: a thread that sleeps there is woken by a mask, or by its close") {
  for (const bool is_closed : {false, true}) {
    CAPTURE(is_closed);
    MaskSlot slot;
    std::jthread setter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (is_closed) return slot.close();
      slot.set(mask_of(5));
    });
    CHECK((slot.wait(Clock::now() + std::chrono::hours(1)) == nullptr) == is_closed);
  }
}

TEST_CASE("mask slot: the masks of a batch are waited for together, and not for slices that draw nothing") {
  const Batch batch = awaiting(4);
  batch.awaited_masks[0]->set(mask_of(1));
  batch.awaited_masks[2]->close();
  const auto begin = Clock::now();
  constexpr std::chrono::milliseconds kLongest{3};
  const AwaitedMasks awaited = await_masks(batch, kLongest, [](std::size_t slice) { return slice != 1; });
  CHECK(*awaited.masks.at(0) == TokenMask{1});
  for (const std::size_t missing : {1U, 2U, 3U}) CHECK(awaited.masks.at(missing) == nullptr);
  CHECK(awaited.wait_nanoseconds.at(1) == 0);
  // Only the last, which was neither set nor closed, is waited for.
  CHECK(Clock::now() - begin >= kLongest);
  CHECK(awaited.wait_nanoseconds.at(3) > 0);
  CHECK(await_masks(Batch{}, kLongest, [](std::size_t) { return true; }).masks.empty());
}

}  // namespace troupe
