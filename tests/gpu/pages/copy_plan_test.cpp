// SPDX-License-Identifier: Apache-2.0
#include "gpu/pages/copy_plan.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "tests/gpu/page_copies.hpp"

namespace troupe {
namespace copy_plan_test {
namespace {

constexpr std::uint32_t kNumPages = 10;

// Of one sequence with `context` tokens that are known and `count` new ones.
Batch batch_of(std::vector<PageCopy> moves, std::uint32_t context, std::uint32_t count,
               std::vector<PageId> pages) {
  Batch batch;
  batch.copies = std::move(moves);
  batch.slices.push_back({.num_tokens = count,
                          .context_length = context,
                          .num_pages = static_cast<std::uint32_t>(pages.size()),
                          .sampling = {},
                          .suppressed = {}});
  batch.page_table = std::move(pages);
  return batch;
}

std::vector<std::uint64_t> generations(const std::vector<PageCopy>& moves) {
  std::vector<std::uint64_t> numbers;
  for (const PageCopy& move : moves) numbers.push_back(move.generation);
  return numbers;
}

using Numbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("copy plan: loads go by layer, stores that nobody waits for come afterwards") {
  const auto plan = plan_copies(
      batch_of({store(5, 0, 1), load(1, 2, 2), store(6, 1, 3), load(3, 3, 4)}, 64, 1, {1, 3, 4}), kNumPages);
  REQUIRE(plan.size() == 1);
  CHECK(generations(plan[0].by_layer) == Numbers{2, 4});
  CHECK(generations(plan[0].afterwards) == Numbers{1, 3});
}

TEST_CASE("copy plan: a page that a load or a slice writes over is stored first, by layer") {
  // Page 1 is loaded into; 4 gets new tokens, 3 is only read, 2 is beyond them.
  const auto plan =
      plan_copies(batch_of({store(1, 0, 1), load(1, 9, 2), store(4, 1, 3), store(3, 2, 4), store(2, 3, 5)},
                           70, 3, {1, 3, 4, 2}),
                  kNumPages);
  REQUIRE(plan.size() == 1);
  CHECK(generations(plan[0].by_layer) == Numbers{1, 2, 3});
  CHECK(generations(plan[0].afterwards) == Numbers{4, 5});
}

TEST_CASE("copy plan: what uses a host page that was stored just before waits for all of it") {
  const auto reads = plan_copies(batch_of({store(1, 0, 1), load(2, 0, 1)}, 0, 1, {5}), kNumPages);
  REQUIRE(reads.size() == 2);
  CHECK(generations(reads[0].afterwards) == Numbers{1});
  CHECK(generations(reads[1].by_layer) == Numbers{1});
  const auto writes = plan_copies(batch_of({store(1, 0, 1), store(2, 0, 2)}, 0, 1, {5}), kNumPages);
  CHECK(writes.size() == 2);
  // The other way round there is nothing to wait for.
  CHECK(plan_copies(batch_of({load(2, 0, 1), store(1, 0, 2)}, 0, 1, {5}), kNumPages).size() == 1);
}

TEST_CASE("copy plan: copies within the device go by layer, behind stores of what they write") {
  const auto plan = plan_copies(
      batch_of({store(1, 0, 1), within(1, 2), store(2, 1, 3), within(5, 1)}, 40, 1, {3, 4}), kNumPages);
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].by_layer == std::vector<PageCopy>{store(1, 0, 1), within(1, 2), within(5, 1)});
  CHECK(generations(plan[0].afterwards) == Numbers{3});
}

TEST_CASE("copy plan: a batch without moves has no plan") {
  CHECK(plan_copies(batch_of({}, 0, 1, {5}), kNumPages).empty());
}

TEST_CASE("copy plan: moves follow a batch that touches their pages, and no other") {
  // Reads 1 and 2, writes 3; 4 is for later.
  const Batch earlier = batch_of({}, 64, 3, {1, 2, 3, 4});
  CHECK(must_follow({load(1, 0, 1)}, earlier, kNumPages));
  CHECK(must_follow({load(3, 0, 1)}, earlier, kNumPages));
  CHECK(must_follow({store(3, 0, 1)}, earlier, kNumPages));
  CHECK_FALSE(must_follow({store(1, 0, 1)}, earlier, kNumPages));
  CHECK_FALSE(must_follow({load(4, 0, 1), store(4, 1, 2), load(7, 2, 3)}, earlier, kNumPages));
  CHECK_FALSE(must_follow({load(1, 0, 1)}, Batch{}, kNumPages));
  CHECK(must_follow({within(1, 7)}, earlier, kNumPages));
  CHECK(must_follow({within(7, 3)}, earlier, kNumPages));
  CHECK_FALSE(must_follow({within(7, 1)}, earlier, kNumPages));
}

TEST_CASE("copy plan: a page that gets its second half is written, not only read") {
  const Batch earlier = batch_of({}, 40, 1, {1, 2});
  CHECK(must_follow({store(2, 0, 1)}, earlier, kNumPages));
  CHECK_FALSE(must_follow({store(1, 0, 1)}, earlier, kNumPages));
}

TEST_CASE("copy plan: batches that are wrong in themselves are planned all the same") {
  Batch wrong = batch_of({store(99, 0, 1), load(4'000'000'000U, 1, 2)}, 4'294'967'295U, 7, {1});
  wrong.slices.push_back(wrong.slices[0]);
  wrong.slices[1].first_page = 4'294'967'295U;
  CHECK(plan_copies(wrong, kNumPages).size() == 1);
  CHECK(must_follow({load(1, 0, 1)}, wrong, kNumPages));
}

}  // namespace copy_plan_test
}  // namespace troupe
