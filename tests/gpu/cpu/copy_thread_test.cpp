// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/copy_thread.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <stdexcept>

#include "tests/gpu/page_copies.hpp"

namespace troupe {
namespace {

constexpr LinkSettings kNeverDone{.bytes_per_second = 1};

struct Step {
  std::shared_ptr<const Batch> batch;
  // Before it, when nothing is in flight, a bit of this host page tips over.
  bool is_damaged = false;
  std::uint32_t host_page = 0;
  std::uint64_t generation = 0;
};

// Random moves and slices over so few pages that they meet all the time. Mostly
// loads ask for what the list, done in order, has stored there.
class RandomSteps {
 public:
  explicit RandomSteps(std::uint64_t seed) : random_(seed) {}

  std::vector<Step> make(std::size_t count) {
    std::vector<Step> steps;
    for (std::size_t i = 0; i < count; ++i) {
      Step step;
      step.host_page = pick(kSmallHostPages);
      step.generation = stored_[step.host_page];
      step.is_damaged = pick(8) == 0;
      step.batch = batch(i + 1);
      steps.push_back(std::move(step));
    }
    return steps;
  }

 private:
  std::uint32_t pick(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }

  std::shared_ptr<const Batch> batch(std::uint64_t id) {
    auto batch = std::make_shared<Batch>();
    batch->id = id;
    for (std::uint32_t n = pick(7); n > 0; --n) batch->copies.push_back(move());
    for (std::uint32_t n = pick(3); n > 0; --n) add_slice(*batch);
    return batch;
  }

  PageCopy move() {
    const std::uint32_t host_page = pick(kSmallHostPages);
    const PageId page = pick(kSmallLayout.num_pages);
    if (pick(4) == 0) return within(page, pick(kSmallLayout.num_pages));
    if (pick(2) == 0) return store(page, host_page, stored_[host_page] = ++last_generation_);
    return load(page, host_page, pick(10) == 0 ? 999'999 : stored_[host_page]);
  }

  void add_slice(Batch& batch) {
    SequenceSlice slice;
    slice.context_length = pick(3 * kKvPageTokens);
    slice.num_tokens = 1 + pick(kKvPageTokens);
    slice.first_page = static_cast<std::uint32_t>(batch.page_table.size());
    slice.num_pages = 4;
    for (int i = 0; i < 4; ++i) batch.page_table.push_back(pick(kSmallLayout.num_pages));
    batch.slices.push_back(slice);
  }

  std::mt19937_64 random_;
  std::uint64_t stored_[kSmallHostPages] = {};
  std::uint64_t last_generation_ = 0;
};

// What a program does to one layer, for who looks at bytes only: every page that
// a slice writes becomes a function of all that it reads.
void run_layer(SmallPool& pool, const Batch& batch, std::size_t layer) {
  for (const SequenceSlice& slice : batch.slices) {
    const PageId* pages = batch.page_table.data() + slice.first_page;
    const std::size_t length = slice.context_length + slice.num_tokens;
    std::uint64_t digest = batch.id;
    for (std::size_t i = 0; i * kKvPageTokens < slice.context_length; ++i)
      digest = page_checksum({pool.part(layer, pages[i]), kSmallPartBytes}, digest);
    for (std::size_t i = slice.context_length / kKvPageTokens; i * kKvPageTokens < length; ++i)
      std::fill_n(pool.part(layer, pages[i]), kSmallPartBytes, static_cast<std::byte>(digest + i));
  }
}

struct Outcome {
  std::vector<std::vector<std::uint64_t>> failed_loads;
  std::vector<std::vector<std::size_t>> void_slices;
};

std::vector<std::size_t> void_slices(SmallPool& pool, const Batch& batch) {
  const std::vector<bool> is_void = pool.copier.find_void_slices(batch);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < is_void.size(); ++i)
    if (is_void[i]) indices.push_back(i);
  return indices;
}

// Whole pages, one after the other, then the batch.
Outcome run_in_order(SmallPool& pool, const std::vector<Step>& steps) {
  Outcome outcome;
  for (const Step& step : steps) {
    if (step.is_damaged) flip_bit(*pool.host, step.host_page, step.generation, 5000);
    outcome.failed_loads.push_back(pool.move_in_order(step.batch->copies));
    for (std::size_t layer = 0; layer < kSmallLayout.num_layers; ++layer) run_layer(pool, *step.batch, layer);
    outcome.void_slices.push_back(void_slices(pool, *step.batch));
  }
  return outcome;
}

// As a device does it, with up to three batches begun at a time.
Outcome run_beside(SmallPool& pool, const std::vector<Step>& steps, const LinkSettings& link,
                   std::uint64_t seed) {
  struct Begun {
    std::shared_ptr<const Batch> batch;
    std::shared_ptr<BatchCopies> copies;
  };
  CopyThread copy_thread(pool.copier, link);
  Outcome outcome;
  std::deque<Begun> begun;
  const auto run_next = [&] {
    const auto [batch, copies] = std::move(begun.front());
    begun.pop_front();
    for (std::size_t layer = 0; layer < kSmallLayout.num_layers; ++layer) {
      if (copies) copies->wait_for_layer(layer);
      run_layer(pool, *batch, layer);
    }
    outcome.failed_loads.push_back(copies ? copies->wait_for_all() : std::vector<std::uint64_t>{});
    outcome.void_slices.push_back(void_slices(pool, *batch));
    copy_thread.end_batch();
  };
  std::mt19937_64 random(seed);
  for (const Step& step : steps) {
    while (begun.size() == 3 || (!begun.empty() && (step.is_damaged || random() % 2 == 0))) run_next();
    if (step.is_damaged) flip_bit(*pool.host, step.host_page, step.generation, 5000);
    begun.push_back({step.batch, copy_thread.begin(step.batch)});
  }
  while (!begun.empty()) run_next();
  return outcome;
}

void check_seed(std::uint64_t seed, const LinkSettings& link) {
  CAPTURE(seed);
  const std::vector<Step> steps = RandomSteps(seed).make(30);
  SmallPool expected;
  SmallPool pool;
  for (PageId page = 0; page < kSmallLayout.num_pages; ++page) {
    expected.fill(page, static_cast<int>(10 * page));
    pool.fill(page, static_cast<int>(10 * page));
  }
  const Outcome in_order = run_in_order(expected, steps);
  const Outcome outcome = run_beside(pool, steps, link, seed);
  CHECK(outcome.failed_loads == in_order.failed_loads);
  CHECK(outcome.void_slices == in_order.void_slices);
  CHECK(pool.bytes == expected.bytes);
  for (const Step& step : steps)
    for (const PageCopy& move : step.batch->copies) {
      if (move.is_within()) continue;
      const auto kept = pool.host->load(move.host_page, move.generation);
      const auto meant = expected.host->load(move.host_page, move.generation);
      CHECK(std::equal(kept.begin(), kept.end(), meant.begin(), meant.end()));
    }
}

}  // namespace

TEST_CASE("copy thread: whatever moves and slices meet, bytes are those of doing all in order") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) check_seed(seed, {});
}

TEST_CASE("copy thread: a slow link changes no byte") {
  const LinkSettings link{.bytes_per_second = 2'000'000'000, .latency = std::chrono::microseconds(3)};
  for (std::uint64_t seed = 1; seed <= 60; ++seed) check_seed(seed, link);
}

TEST_CASE("copy thread: a batch without moves has nothing to wait for") {
  SmallPool pool;
  CopyThread copy_thread(pool.copier, {});
  CHECK(copy_thread.begin(std::make_shared<Batch>()) == nullptr);
  copy_thread.end_batch();
}

TEST_CASE("copy thread: copies wait for the batch that touches their pages, not for others") {
  SmallPool pool;
  pool.fill(0, 10);
  REQUIRE(pool.move_in_order({store(0, 0, 1)}).empty());
  CopyThread copy_thread(pool.copier, {});
  auto reader = std::make_shared<Batch>();
  reader->slices.push_back(
      {.num_tokens = 1, .context_length = 32, .num_pages = 2, .sampling = {}, .suppressed = {}});
  reader->page_table = {1, 2};
  auto next = std::make_shared<Batch>();
  next->copies = {load(3, 0, 1)};
  auto last = std::make_shared<Batch>();
  last->copies = {load(1, 0, 1)};
  pool.fill(1, 90);
  copy_thread.begin(reader);
  // Page 3 comes while the reader has not run; page 1 stays as it is.
  copy_thread.begin(next)->wait_for_all();
  const auto copies = copy_thread.begin(last);
  CHECK(pool.holds(3, 10));
  CHECK(copies->follows() == 1);
  CHECK(pool.holds(1, 90));
  copy_thread.end_batch();
  copies->wait_for_all();
  CHECK(pool.holds(1, 10));
}

TEST_CASE("copy thread: moves to nowhere fail their batch, and only that") {
  SmallPool pool;
  CopyThread copy_thread(pool.copier, {});
  auto wrong = std::make_shared<Batch>();
  wrong->copies = {store(0, 0, 1), load(99, 0, 1)};
  auto right = std::make_shared<Batch>();
  right->copies = {store(0, 1, 2)};
  const auto failing = copy_thread.begin(wrong);
  const auto copies = copy_thread.begin(right);
  CHECK_THROWS_WITH_AS(failing->wait_for_layer(0), doctest::Contains("device page 99"), std::runtime_error);
  CHECK(copies->wait_for_all().empty());
  CHECK(pool.host->load(0, 1).empty());
  CHECK_FALSE(pool.host->load(1, 2).empty());
}

TEST_CASE("copy thread: stopped with copies in flight, it wakes who waits and leaves nothing half") {
  SmallPool pool;
  REQUIRE(pool.move_in_order({store(0, 0, 1)}).empty());
  CopyThread copy_thread(pool.copier, kNeverDone);
  auto first = std::make_shared<Batch>();
  first->copies = {store(1, 0, 2), store(2, 1, 3)};
  auto second = std::make_shared<Batch>();
  second->copies = {load(3, 0, 2)};
  const auto storing = copy_thread.begin(first);
  const auto queued = copy_thread.begin(second);
  copy_thread.stop();
  CHECK_THROWS_WITH_AS(storing->wait_for_all(), doctest::Contains("stopped"), std::runtime_error);
  CHECK_THROWS_WITH_AS(queued->wait_for_layer(0), doctest::Contains("stopped"), std::runtime_error);
  CHECK(pool.host->load(0, 2).empty());
  CHECK(pool.host->load(1, 3).empty());
}

}  // namespace troupe
