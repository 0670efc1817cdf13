// SPDX-License-Identifier: Apache-2.0
#include "gpu/memory_plan.hpp"

#include <limits>
#include <random>
#include <stdexcept>

#include <doctest/doctest.h>

namespace troupe {
namespace {

MemoryRequest small_request() {
  return {.weight_bytes = 1000,
          .table_bytes = 100,
          .arena_bytes = 200,
          .page_bytes = 50,
          .slot_bytes = 4,
          .page_size = 32,
          .num_slots = 10,
          .context_length = 100,  // four pages
          .budget_bytes = 2000};
}

}  // namespace

TEST_CASE("memory plan: what is left after the fixed parts becomes pages") {
  const auto plan = plan_memory(small_request());
  CHECK(plan.slots_bytes == 40);
  CHECK(plan.num_pages == (2000 - 1340) / 50);
  CHECK(plan.kv_bytes == plan.num_pages * 50);
  CHECK(plan.total_bytes == 1340 + plan.kv_bytes);
}

TEST_CASE("memory plan: a model without pages needs weights and temporaries only") {
  auto request = small_request();
  request.page_bytes = request.slot_bytes = request.table_bytes = 0;
  request.max_pages = 5;
  request.budget_bytes = 1200;
  const auto plan = plan_memory(request);
  CHECK(plan.num_pages == 0);
  CHECK(plan.kv_bytes == 0);
  CHECK(plan.total_bytes == 1200);
  CHECK(to_string(plan).find("KV") == std::string::npos);
  request.budget_bytes = 1199;
  CHECK_THROWS_WITH_AS(plan_memory(request), doctest::Contains("1.2 KiB needed"), std::runtime_error);
}

TEST_CASE("memory plan: max_pages bounds the pages, but never below one full sequence") {
  auto request = small_request();
  request.max_pages = 5;
  CHECK(plan_memory(request).num_pages == 5);
  request.max_pages = 1;
  CHECK(plan_memory(request).num_pages == 4);
}

TEST_CASE("memory plan: what does not fit is refused with both numbers") {
  auto request = small_request();
  request.budget_bytes = 1340 + 4 * 50;
  CHECK(plan_memory(request).num_pages == 4);
  request.budget_bytes -= 1;
  CHECK_THROWS_WITH_AS(plan_memory(request), doctest::Contains("1.5 KiB needed"), std::runtime_error);
  CHECK_THROWS_WITH_AS(plan_memory(request), doctest::Contains("1.5 KiB allowed"), std::runtime_error);
}

TEST_CASE("memory plan: sums that overflow do not fit") {
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  auto request = small_request();
  request.weight_bytes = kMax;
  CHECK_THROWS_AS(plan_memory(request), std::runtime_error);
  request = small_request();
  request.page_bytes = kMax / 2;
  CHECK_THROWS_AS(plan_memory(request), std::runtime_error);
}

TEST_CASE("memory plan: never more than the budget, never fewer pages than one sequence") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    MemoryRequest request{.weight_bytes = random() % 100'000,
                          .table_bytes = random() % 1000,
                          .arena_bytes = random() % 10'000,
                          .page_bytes = 1 + random() % 5000,
                          .slot_bytes = random() % 100,
                          .page_size = static_cast<std::uint32_t>(1 + random() % 64),
                          .num_slots = static_cast<std::uint32_t>(random() % 100),
                          .context_length = static_cast<std::uint32_t>(1 + random() % 1000),
                          .max_pages = static_cast<std::uint32_t>(random() % 3 * 100),
                          .budget_bytes = random() % 400'000};
    try {
      const auto plan = plan_memory(request);
      CHECK(plan.total_bytes <= request.budget_bytes);
      CHECK(std::uint64_t{plan.num_pages} * request.page_size >= request.context_length);
    } catch (const std::runtime_error&) {
      const std::uint64_t pages = (request.context_length + request.page_size - 1) / request.page_size;
      CHECK(request.weight_bytes + request.table_bytes + request.arena_bytes +
                request.slot_bytes * request.num_slots + pages * request.page_bytes >
            request.budget_bytes);
    }
  }
}

TEST_CASE("memory plan: the table shows every part") {
  const std::string table = to_string(plan_memory(small_request()));
  for (const char* part : {"weights", "temporaries", "KV pages", "13 of 32 tokens", "total"}) {
    CAPTURE(table);
    CHECK(table.find(part) != std::string::npos);
  }
}

TEST_CASE("memory plan: bytes are shown in the unit that fits") {
  CHECK(shown_bytes(0) == "0 B");
  CHECK(shown_bytes(1023) == "1023 B");
  CHECK(shown_bytes(1536) == "1.5 KiB");
  CHECK(shown_bytes(3ULL << 30) == "3.0 GiB");
}

}  // namespace troupe
