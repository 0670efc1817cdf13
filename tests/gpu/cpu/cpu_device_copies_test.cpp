// SPDX-License-Identifier: Apache-2.0
// The CPU device with KV pages that come from the host tier and go there.
#include "gpu/cpu/cpu_device.hpp"

#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/pages/host_pages.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/gpu/tiny_model.hpp"

namespace troupe {
namespace {

// The tokens 3, 4, 5 … of which the first `known` are in the pages already; what
// comes after 40 of them.
Batch longer_batch(std::uint32_t known) {
  Batch batch{.id = 6, .slices = {}, .token_ids = {}, .page_table = {0, 1}};
  for (std::uint32_t i = known; i < 40; ++i) batch.token_ids.push_back(static_cast<int>(3 + i));
  batch.slices.push_back({.sequence = 43,
                          .num_tokens = 40 - known,
                          .context_length = known,
                          .num_pages = 2,
                          .sample = true,
                          .sampling = {.temperature = 0.0F},
                          .suppressed = {}});
  return batch;
}

std::shared_ptr<HostPages> make_host_pages(std::uint32_t num_pages) {
  return std::make_shared<HostPages>(num_pages, tiny_model()->memory.request.page_bytes);
}

// Two pages of context, of which the first comes from the host.
struct FollowUp {
  std::shared_ptr<HostPages> host_pages = make_host_pages(2);
  Batch batch = longer_batch(kKvPageTokens);
  std::vector<std::int32_t> expected;

  // Leaves the page on the host only.
  explicit FollowUp(ProgramCache& programs) {
    CpuDevice device(tiny_model(), {.host_pages = host_pages});
    expected = run(device, programs, longer_batch(0)).tokens;
    Batch storing = good_batch();
    storing.page_table = {2, 3};
    storing.copies = {{.direction = PageCopy::kStore, .host_page = 1, .generation = 4}};
    REQUIRE(run(device, programs, storing).error.empty());
    batch.page_table = {5, 6};
    batch.copies = {{.device_page = 5, .host_page = 1, .generation = 4}};
  }
};

}  // namespace

TEST_CASE("cpu device: a batch without slices does its moves and needs no program") {
  CpuDevice device(tiny_model(), {.host_pages = make_host_pages(2)});
  ProgramCache programs = make_programs();
  const auto expected = run(device, programs, longer_batch(0));
  const auto moves_only = [&](std::uint64_t id, std::vector<PageCopy> moves) {
    auto batch = std::make_shared<Batch>();
    batch->id = id;
    batch->copies = std::move(moves);
    return wait_for(device, device.submit(nullptr, batch));
  };
  const auto stored = moves_only(7, {{.direction = PageCopy::kStore, .host_page = 1, .generation = 4}});
  CHECK(stored.batch_id == 7);
  CHECK(stored.error.empty());
  CHECK(stored.tokens.empty());
  // Its first page comes back elsewhere, what follows is computed again.
  CHECK(moves_only(8, {{.device_page = 5, .host_page = 1, .generation = 4}}).failed_loads.empty());
  Batch rest = longer_batch(kKvPageTokens);
  rest.page_table = {5, 6};
  CHECK(run(device, programs, rest).tokens == expected.tokens);
  CHECK(moves_only(9, {{.device_page = 5, .host_page = 0, .generation = 2}}).failed_loads ==
        std::vector<std::uint64_t>{2});
  CHECK(run(device, programs, rest).tokens == std::vector<std::int32_t>{kVoidContext});
}

TEST_CASE("cpu device: a batch waits for its KV layer by layer, and its tokens are the same") {
  ProgramCache programs = make_programs();
  FollowUp follow_up(programs);
  for (const LinkSettings link : {LinkSettings{}, LinkSettings{.bytes_per_second = 100'000'000}}) {
    CpuDevice device(tiny_model(), {.host_pages = follow_up.host_pages, .link = link, .poison_memory = true});
    const auto result = run(device, programs, follow_up.batch);
    CHECK(result.error.empty());
    CHECK(result.failed_loads.empty());
    CHECK(result.tokens == follow_up.expected);
  }
}

TEST_CASE("cpu device: damage that shows with the last layer voids the slice, not its neighbour") {
  ProgramCache programs = make_programs();
  FollowUp follow_up(programs);
  const auto contents = follow_up.host_pages->load(1, 4);
  const_cast<std::byte&>(contents.back()) ^= std::byte{1};
  CpuDevice device(tiny_model(), {.host_pages = follow_up.host_pages, .poison_memory = true});
  const auto alone = run(device, programs, good_batch());
  Batch batch = follow_up.batch;
  SequenceSlice neighbour = good_batch().slices[0];
  neighbour.slot = 1;
  neighbour.first_page = 2;
  batch.slices.push_back(neighbour);
  batch.token_ids.insert(batch.token_ids.end(), {3, 4, 5});
  batch.page_table = {5, 6, 7, 8};
  const auto result = run(device, programs, batch);
  CHECK(result.failed_loads == std::vector<std::uint64_t>{4});
  CHECK(result.tokens == std::vector<std::int32_t>{kVoidContext, alone.tokens[0]});
}

TEST_CASE("cpu device: it can go with copies in flight, and what was not stored is not there") {
  ProgramCache programs = make_programs();
  FollowUp follow_up(programs);
  {
    CpuDevice device(tiny_model(), {.host_pages = follow_up.host_pages, .link = {.bytes_per_second = 1}});
    Batch storing = follow_up.batch;
    storing.copies = {{.direction = PageCopy::kStore, .host_page = 0, .generation = 9},
                      {.device_page = 5, .host_page = 1, .generation = 4}};
    const auto program = programs.find(0, 64, 8);
    for (int i = 0; i < 3; ++i) device.submit(program, std::make_shared<Batch>(storing));
  }
  CHECK(follow_up.host_pages->load(0, 9).empty());
  CpuDevice device(tiny_model(), {.host_pages = follow_up.host_pages});
  CHECK(run(device, programs, follow_up.batch).tokens == follow_up.expected);
}

TEST_CASE("cpu device: moves to nowhere fail their batch alone") {
  ProgramCache programs = make_programs();
  CpuDevice device(tiny_model(), {.host_pages = make_host_pages(2)});
  Batch bad = good_batch();
  bad.copies = {{.device_page = 1, .host_page = 2, .generation = 1}};
  CHECK(run(device, programs, bad).error.find("host page 2") != std::string::npos);
  CHECK(run(device, programs, good_batch()).error.empty());
}

}  // namespace troupe
