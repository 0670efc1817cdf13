// SPDX-License-Identifier: Apache-2.0
// The moves of a CUDA device's KV pages, through the twin of CUDA's runtime: what
// waits for what is only right if it is right under every order of the streams.
#include <random>

#include <doctest/doctest.h>

#include "cuda_model.hpp"
#include "generation.hpp"

namespace troupe {
namespace {

using cuda::CudaDevice;

// One sequence's tokens from `known` on, up to `end`; its KV is in `pages`.
Batch advance(std::uint32_t slot, std::uint32_t known, std::uint32_t end, std::vector<PageId> pages) {
  Batch batch{.id = 1, .slices = {}, .token_ids = {}, .page_table = std::move(pages)};
  for (std::uint32_t i = known; i < end; ++i)
    batch.token_ids.push_back(static_cast<std::int32_t>((slot * 31 + i * 7 + 3) % 100));
  batch.slices.push_back({.sequence = slot,
                          .slot = slot,
                          .num_tokens = end - known,
                          .context_length = known,
                          .num_pages = static_cast<std::uint32_t>(batch.page_table.size()),
                          .sample = true,
                          .sampling = {.temperature = 0.0F},
                          .suppressed = {}});
  return batch;
}

class Session {
 public:
  Session(const SmallCudaModel& model, std::shared_ptr<HostPages> host_pages)
      : programs_(model.programs()), device_(model.get(), {.host_pages = std::move(host_pages)}) {}

  Ticket submit(Batch batch) {
    const auto program = batch.slices.empty()
                             ? nullptr
                             : programs_.find(batch.cell, batch.num_tokens(), batch.num_output_rows());
    return device_.submit(program, std::make_shared<const Batch>(std::move(batch)));
  }
  BatchResult result(Ticket ticket) { return wait_for(device_, ticket); }
  BatchResult run(Batch batch) { return result(submit(std::move(batch))); }

 private:
  ProgramCache programs_;
  CudaDevice device_;
};

// Two pages and a bit of context.
constexpr std::uint32_t kLength = 70;

std::int32_t expected_token(const SmallCudaModel& model, std::uint32_t slot) {
  Session session(model, nullptr);
  return session.run(advance(slot, 0, kLength, {0, 1, 2})).tokens.at(0);
}

}  // namespace

TEST_CASE("page copy streams: a page comes back from the host, whatever the streams' order") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  const std::int32_t expected = expected_token(model, 0);
  for (const std::uint64_t seed : {0U, 1U, 2U, 3U, 4U}) {
    set_stream_order(seed);
    Session session(model, model.make_host_pages(4));
    // All in flight at once: pages are stored, written over by another sequence and
    // loaded elsewhere, and the sequence goes on from there.
    std::vector<Ticket> tickets;
    tickets.push_back(session.submit(advance(0, 0, 64, {0, 1})));
    Batch other = advance(1, 0, 64, {0, 1});
    other.copies = {{.direction = PageCopy::kStore, .device_page = 0, .host_page = 2, .generation = 5},
                    {.direction = PageCopy::kStore, .device_page = 1, .host_page = 0, .generation = 6}};
    tickets.push_back(session.submit(other));
    Batch follow_up = advance(0, 64, kLength, {7, 8, 9});
    follow_up.copies = {{.device_page = 7, .host_page = 2, .generation = 5},
                        {.device_page = 8, .host_page = 0, .generation = 6}};
    tickets.push_back(session.submit(follow_up));
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      const BatchResult result = session.result(tickets[i]);
      CHECK(result.error == "");
      CHECK(result.failed_loads.empty());
      if (i == 2) CHECK(result.tokens.at(0) == expected);
    }
  }
  set_stream_order(0);
}

TEST_CASE("page copy streams: what is not there, or not intact, voids the slices that read it") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  const auto host_pages = model.make_host_pages(4);
  Session session(model, host_pages);
  Batch first = advance(0, 0, kLength, {0, 1, 2});
  const std::int32_t expected = session.run(first).tokens.at(0);
  Batch store{.id = 2, .slices = {}, .token_ids = {}, .page_table = {}};
  store.copies = {{.direction = PageCopy::kStore, .device_page = 0, .host_page = 1, .generation = 8},
                  {.direction = PageCopy::kStore, .device_page = 1, .host_page = 3, .generation = 9}};
  REQUIRE(session.run(store).error == "");
  CHECK(!host_pages->load(1, 8).empty());
  host_pages->memory()[3 * host_pages->page_bytes() + 17] ^= std::byte{1};

  Batch damaged = advance(0, 64, kLength, {10, 11, 12});
  damaged.copies = {{.device_page = 10, .host_page = 1, .generation = 8},
                    {.device_page = 11, .host_page = 3, .generation = 9}};
  Batch beside = advance(1, 0, 5, {20});
  damaged.slices.push_back(beside.slices.at(0));
  damaged.slices.back().first_page = 3;
  damaged.page_table.push_back(20);
  for (const std::int32_t token : beside.token_ids) damaged.token_ids.push_back(token);
  const BatchResult result = session.run(damaged);
  CHECK(result.error == "");
  CHECK(result.failed_loads == std::vector<std::uint64_t>{9});
  CHECK(result.tokens.at(0) == kVoidContext);
  CHECK(result.tokens.at(1) >= 0);

  Batch absent = advance(0, 64, kLength, {10, 11, 12});
  absent.copies = {{.device_page = 11, .host_page = 0, .generation = 9}};
  CHECK(session.run(absent).failed_loads == std::vector<std::uint64_t>{9});
  // Computed again, the page is what it was.
  Batch again = advance(0, 32, kLength, {10, 11, 12});
  CHECK(session.run(again).tokens.at(0) == expected);
}

TEST_CASE("page copy streams: a captured decode step waits for its pages as well") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  for (const std::uint64_t seed : {0U, 1U, 2U, 3U}) {
    set_stream_order(seed);
    Session session(model, model.make_host_pages(2));
    session.run(advance(0, 0, 64, {0, 1}));
    const std::int32_t expected = session.run(advance(0, 64, 65, {0, 1, 2})).tokens.at(0);
    Batch store{.id = 2, .slices = {}, .token_ids = {}, .page_table = {}};
    store.copies = {{.direction = PageCopy::kStore, .device_page = 0, .host_page = 0, .generation = 3},
                    {.direction = PageCopy::kStore, .device_page = 1, .host_page = 1, .generation = 4}};
    session.run(store);
    for (PageId first = 10; first < 40; first += 10) {  // as it is, captured, replayed
      Batch step = advance(0, 64, 65, {first, first + 1, first + 2});
      step.copies = {{.device_page = first, .host_page = 0, .generation = 3},
                     {.device_page = first + 1, .host_page = 1, .generation = 4}};
      CHECK(session.run(step).tokens.at(0) == expected);
    }
  }
  set_stream_order(0);
}

TEST_CASE("page copy streams: moves to nowhere fail their batch alone") {
  const SmallCudaModel model(small_settings(DataType::kBF16));
  Session session(model, model.make_host_pages(2));
  Batch bad = advance(0, 0, 5, {0});
  bad.copies = {{.device_page = 1, .host_page = 2, .generation = 1}};
  CHECK(session.run(bad).error.find("host page 2") != std::string::npos);
  Batch beyond = advance(0, 0, 5, {0});
  beyond.copies = {{.device_page = 64, .host_page = 1, .generation = 1}};
  CHECK(session.run(beyond).error.find("device page 64") != std::string::npos);
  CHECK(session.run(advance(0, 0, 5, {0})).error == "");
}

TEST_CASE("page copy streams: what a device stored, the next one finds") {
  const SmallCudaModel model(small_settings(DataType::kF32));
  const std::int32_t expected = expected_token(model, 0);
  const auto host_pages = model.make_host_pages(2);
  {
    Session session(model, host_pages);
    session.run(advance(0, 0, 64, {0, 1}));
    Batch store{.id = 2, .slices = {}, .token_ids = {}, .page_table = {}};
    store.copies = {{.direction = PageCopy::kStore, .device_page = 0, .host_page = 0, .generation = 3},
                    {.direction = PageCopy::kStore, .device_page = 1, .host_page = 1, .generation = 4}};
    session.run(store);
  }
  Session session(model, host_pages);
  Batch follow_up = advance(0, 64, kLength, {3, 4, 5});
  follow_up.copies = {{.device_page = 3, .host_page = 0, .generation = 3},
                      {.device_page = 4, .host_page = 1, .generation = 4}};
  CHECK(session.run(follow_up).tokens.at(0) == expected);
}

// Loaded, stored elsewhere and loaded over, all of one batch: each must wait for
// the one before, on two streams.
TEST_CASE("page copy streams: a page that is loaded, stored and loaded again is stored in between") {
  const SmallCudaModel model(small_settings(DataType::kF32));
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    set_stream_order(seed);
    Session session(model, model.make_host_pages(4));
    std::vector<std::int32_t> expected;
    Batch store{.id = 2, .slices = {}, .token_ids = {}, .page_table = {}};
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      session.run(advance(slot, 0, 32, {slot}));
      expected.push_back(session.run(advance(slot, 32, 34, {slot, 10})).tokens.at(0));
      store.copies.push_back(
          {.direction = PageCopy::kStore, .device_page = slot, .host_page = slot, .generation = 1 + slot});
    }
    session.run(store);
    Batch chain = advance(2, 32, 34, {5, 10});
    chain.copies = {{.device_page = 5, .host_page = 0, .generation = 1},
                    {.direction = PageCopy::kStore, .device_page = 5, .host_page = 3, .generation = 9},
                    {.device_page = 5, .host_page = 1, .generation = 2},
                    {.direction = PageCopy::kStore, .device_page = 5, .host_page = 0, .generation = 10},
                    {.device_page = 5, .host_page = 2, .generation = 3}};
    const Ticket ticket = session.submit(chain);
    Batch first = advance(0, 32, 34, {6, 11});
    first.copies = {{.device_page = 6, .host_page = 3, .generation = 9}};
    Batch second = advance(1, 32, 34, {7, 12});
    second.copies = {{.device_page = 7, .host_page = 0, .generation = 10}};
    const Ticket of_first = session.submit(first);
    CHECK(session.result(ticket).tokens.at(0) == expected[2]);
    CHECK(session.result(of_first).tokens.at(0) == expected[0]);
    CHECK(session.run(second).tokens.at(0) == expected[1]);
  }
  set_stream_order(0);
}

// Host pages are stored into again and again while loads of them are on their way.
TEST_CASE("page copy streams: random moves of many batches in flight give what moves one by one give") {
  auto settings = small_settings(DataType::kF32);
  settings.max_in_flight = 4;
  const SmallCudaModel model(settings);
  constexpr std::uint32_t kDevicePages = 6, kHostPages = 3;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    set_stream_order(seed);
    std::mt19937_64 random(seed);
    Session session(model, model.make_host_pages(kHostPages));
    // Which first page of a sequence is where: its contents name it.
    std::vector<std::uint32_t> on_device(kDevicePages);
    std::vector<std::uint64_t> on_host(kHostPages);
    std::uint64_t generation = 1000;
    std::map<std::uint64_t, std::uint32_t> contents;  // by generation: whose page
    struct Expected {
      Ticket ticket;
      std::vector<std::uint64_t> failed;
      std::uint32_t slot;
      bool is_void;
      std::int32_t token;
    };
    std::vector<std::int32_t> truth;
    for (std::uint32_t page = 0; page < kDevicePages; ++page) {
      on_device[page] = page;
      REQUIRE(session.run(advance(page, 0, 32, {page})).error == "");
      truth.push_back(session.run(advance(page, 32, 34, {page, 10})).tokens.at(0));
    }
    std::vector<bool> is_void(kDevicePages);
    std::deque<Expected> open;
    const auto settle = [&] {
      const Expected expected = open.front();
      open.pop_front();
      const BatchResult result = session.result(expected.ticket);
      CHECK(result.error == "");
      CHECK(result.failed_loads == expected.failed);
      CHECK(result.tokens.at(0) == (expected.is_void ? kVoidContext : expected.token));
    };
    for (int step = 0; step < 40; ++step) {
      Expected expected{};
      Batch moves{.id = 1, .slices = {}, .token_ids = {}, .page_table = {}};
      for (std::uint64_t i = random() % 7; i > 0; --i) {
        if (random() % 4 == 0) {
          const auto to = static_cast<PageId>(random() % kDevicePages);
          const auto from = static_cast<PageId>(random() % kDevicePages);
          moves.copies.push_back({.direction = PageCopy::kWithin, .device_page = to, .from_page = from});
          on_device[to] = on_device[from];
          is_void[to] = is_void[from];
          continue;
        }
        PageCopy move{.direction = random() % 2 == 0 ? PageCopy::kStore : PageCopy::kLoad,
                      .device_page = static_cast<PageId>(random() % kDevicePages),
                      .host_page = static_cast<std::uint32_t>(random() % kHostPages)};
        if (move.is_store()) {
          move.generation = ++generation;
          contents[generation] = on_device[move.device_page];
          on_host[move.host_page] = is_void[move.device_page] ? 0 : generation;
        } else {
          const bool is_wrong = random() % 8 == 0 || on_host[move.host_page] == 0;
          move.generation = is_wrong ? 999 : on_host[move.host_page];
          is_void[move.device_page] = is_wrong;
          if (is_wrong)
            expected.failed.push_back(999);
          else
            on_device[move.device_page] = contents.at(move.generation);
        }
        moves.copies.push_back(move);
      }
      // Whose page is it? Two more tokens of that sequence tell.
      const auto page = static_cast<PageId>(random() % kDevicePages);
      expected.slot = on_device[page];
      expected.is_void = is_void[page];
      expected.token = truth.at(expected.slot);
      Batch batch = advance(expected.slot, 32, 34, {page, 10});
      batch.copies = moves.copies;
      expected.ticket = session.submit(batch);
      open.push_back(expected);
      if (open.size() == 4) settle();
    }
    while (!open.empty()) settle();
  }
  set_stream_order(0);
}

}  // namespace troupe
