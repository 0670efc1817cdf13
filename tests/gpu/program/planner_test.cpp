// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/planner.hpp"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

#include "gpu/model/random_model.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;

bool live_together(const TensorUse& a, const TensorUse& b) {
  return a.first_operator <= b.last_operator && b.first_operator <= a.last_operator;
}

// Two tensors of which some operator needs both share no byte, and all lie
// inside their chunks, aligned.
void check_plan(const std::vector<TensorUse>& uses, const ArenaPlan& plan) {
  REQUIRE(plan.placements.size() == uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].size_bytes == 0) continue;
    const Placement a = plan.placements[i];
    REQUIRE(a.chunk < plan.chunks.size());
    CHECK(a.offset % kArenaAlignment == 0);
    CHECK(a.offset + uses[i].size_bytes <= plan.chunks[a.chunk].size_bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const Placement b = plan.placements[j];
      if (uses[j].size_bytes == 0 || a.chunk != b.chunk || !live_together(uses[i], uses[j])) {
        continue;
      }
      const bool apart =
          a.offset + uses[i].size_bytes <= b.offset || b.offset + uses[j].size_bytes <= a.offset;
      CHECK(apart);
    }
  }
}

std::vector<TensorUse> random_uses(std::mt19937& random, std::uint64_t max_bytes) {
  std::vector<TensorUse> uses(1 + random() % 60);
  for (auto& use : uses) {
    use.first_operator = random() % 40;
    use.last_operator = use.first_operator + random() % 8;
    use.size_bytes = random() % max_bytes;
  }
  return uses;
}

std::vector<std::uint64_t> sizes_of(const ArenaPlan& plan) {
  std::vector<std::uint64_t> sizes;
  for (const auto& chunk : plan.chunks) sizes.push_back(chunk.size_bytes);
  return sizes;
}

// The largest sum of live tensors at any operator: no plan can do with less.
std::uint64_t peak_bytes(const std::vector<TensorUse>& uses) {
  std::uint64_t peak = 0;
  for (std::uint32_t op = 0; op < 64; ++op) {
    std::uint64_t sum = 0;
    for (const auto& use : uses) {
      if (use.first_operator <= op && op <= use.last_operator) sum += use.size_bytes;
    }
    peak = std::max(peak, sum);
  }
  return peak;
}

}  // namespace

TEST_CASE("planner: tensors that live one after the other share memory") {
  const std::vector<TensorUse> uses = {{0, 1, kMiB}, {2, 3, kMiB}, {4, 5, kMiB}};
  const auto plan = plan_arena(uses);
  check_plan(uses, plan);
  REQUIRE(plan.chunks.size() == 1);
  CHECK(plan.chunks[0].size_bytes == kDefaultChunkBytes);
  for (const auto& placement : plan.placements) CHECK(placement.offset == 0);
}

TEST_CASE("planner: neighbouring operators do not share, the second reads the first's output") {
  const std::vector<TensorUse> uses = {{0, 1, kMiB}, {1, 2, kMiB}};
  const auto plan = plan_arena(uses);
  check_plan(uses, plan);
  CHECK(plan.placements[0].offset != plan.placements[1].offset);
}

TEST_CASE("planner: a new chunk is 2 MiB or 1.2 times the tensor") {
  CHECK(plan_arena(std::vector<TensorUse>{{0, 0, 100}}).chunks[0].size_bytes == 2 * kMiB);
  const auto big = plan_arena(std::vector<TensorUse>{{0, 0, 10 * kMiB}}).chunks[0].size_bytes;
  CHECK(big >= 12 * kMiB);
  CHECK(big <= 12 * kMiB + kArenaAlignment);
}

TEST_CASE("planner: the smallest sufficient gap is taken") {
  // Two long-lived tensors leave, when the short ones between them are gone, a
  // gap of 4 and one of 2 units; the last tensor fits both.
  constexpr std::uint64_t kUnit = 64 * 1024;
  const std::vector<TensorUse> uses = {
      {0, 0, 8 * kUnit}, {0, 9, 7 * kUnit}, {0, 0, 6 * kUnit}, {0, 9, 5 * kUnit}, {9, 9, 4 * kUnit},
  };
  const auto plan = plan_arena(uses);
  check_plan(uses, plan);
  CHECK(plan.placements[4].offset == 15 * kUnit);  // where the 6 were, not where the 8 were
}

TEST_CASE("planner: existing chunks are used first, unused ones leave the plan") {
  const std::vector<std::uint64_t> existing = {4 * kMiB, 8 * kMiB, 16 * kMiB};
  const std::vector<TensorUse> uses = {{0, 1, 6 * kMiB}};
  const auto plan = plan_arena(uses, existing);
  check_plan(uses, plan);
  REQUIRE(plan.chunks.size() == 1);
  CHECK(plan.chunks[0].existing == 1);
  CHECK(plan.placements[0].chunk == 0);
}

TEST_CASE("planner: no tensors need no memory") {
  CHECK(plan_arena({}).chunks.empty());
  CHECK(plan_arena(std::vector<TensorUse>{{0, 3, 0}}).chunks.empty());
}

TEST_CASE("planner: live tensors never overlap, whatever the program and the chunks") {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    std::vector<std::uint64_t> existing;
    for (int step = 0; step < 4; ++step) {
      const auto uses = random_uses(random, round % 2 == 0 ? 3 * kMiB : 300'000);
      const auto plan = plan_arena(uses, existing);
      check_plan(uses, plan);
      CHECK(plan.size_bytes() >= peak_bytes(uses));
      for (const auto& chunk : plan.chunks) {
        if (chunk.existing) CHECK(existing.at(*chunk.existing) == chunk.size_bytes);
        if (!chunk.existing) CHECK(chunk.size_bytes >= kDefaultChunkBytes);
      }
      existing = sizes_of(plan);
    }
  }
}

TEST_CASE("planner: the same uses fit into the chunks of their own plan") {
  std::mt19937 random(12);
  for (int round = 0; round < 100; ++round) {
    const auto uses = random_uses(random, 3 * kMiB);
    const auto first = plan_arena(uses);
    const auto again = plan_arena(uses, sizes_of(first));
    CHECK(sizes_of(again) == sizes_of(first));
    for (const auto& chunk : again.chunks) CHECK(chunk.existing.has_value());
  }
}

TEST_CASE("planner: a tensor of choices has so many rows for each token, one of fixed rows the same always") {
  const TensorSpec choices{.name = "choices", .rows = RowCount::kTokens, .columns = 16, .rows_a_token = 3};
  const TensorSpec bounds{.name = "bounds", .rows = RowCount::kFixed, .fixed_rows = 1, .columns = 9};
  const std::vector<TensorId> both = {0, 1};
  const std::vector<OperandList> operators = {{both, {}}};
  const auto uses = tensor_uses(std::vector{choices, bounds}, operators, {.max_tokens = 7});
  CHECK(uses[0].size_bytes == 7 * 3 * 16 * sizeof(float));
  CHECK(uses[1].size_bytes == 9 * sizeof(float));
}

TEST_CASE("planner: a Llama's temporaries are disjoint while live and few in bytes") {
  const auto network = make_network(llama_100m());
  const ProgramShape shape{256, 32};
  const Program program = network->build_program(0, shape, DataType::kBF16);
  const auto uses = tensor_uses(program, shape);
  const auto plan = plan_arena(uses);
  check_plan(uses, plan);
  std::uint64_t sum = 0;
  for (const auto& use : uses) sum += use.size_bytes;
  CHECK(plan.size_bytes() * 4 < sum);  // twelve layers share one layer's memory
}

}  // namespace troupe
