// SPDX-License-Identifier: Apache-2.0
// Recurrent cells in virtual time, with numbers one can follow.
#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "loadgen/simulator/simulator.hpp"
#include "loadgen/workload/word_tree.hpp"
#include "tests/loadgen/simulator/simulated_traffic.hpp"

using namespace troupe;
using namespace troupe::loadgen;
using namespace std::chrono_literals;

namespace simulated_cells_test {
namespace {

// A batch of the first cell takes a millisecond, of the second ten.
CostProfile cell_profile(GraphKind graphs) {
  CostProfile profile = plain_profile();
  profile.serving.page_size = profile.serving.num_pages = 0;
  profile.cells = ProfiledCells{.graphs = graphs, .num_rows = 64, .types = {}};
  profile.cells->types.push_back({.name = "first", .priority = 0, .max_batch = 0, .cost = fixed_cost(1e6)});
  if (graphs != GraphKind::kChain)
    profile.cells->types.push_back(
        {.name = "second", .priority = 1, .max_batch = 0, .cost = fixed_cost(1e7)});
  return profile;
}

std::vector<RequestRecord> play(const CostProfile& profile, std::vector<PlannedConversation> conversations,
                                TreeShape trees = TreeShape::kNone) {
  ListedConversations source(std::move(conversations));
  RequestClass request_class;
  request_class.trees = trees;
  auto records = simulate(profile, source, {request_class}, {}).result.records;
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.conversation < b.conversation; });
  return records;
}

}  // namespace

TEST_CASE("simulated cells: a chain takes a step a token, and others join it at any step") {
  const auto records =
      play(cell_profile(GraphKind::kChain), {lone_request(0ms, 5, 3), lone_request(1500us, 2, 1)});
  CHECK(records[0].first_token == 5ms);
  CHECK(records[0].finished == 7ms);
  CHECK(records[1].outcome == Outcome::kCompleted);
  CHECK(records[1].finished == 5ms);  // two batches were in flight when it came
}

TEST_CASE("simulated cells: whole graphs wait for the batch before, are padded, and end together") {
  CostProfile profile = cell_profile(GraphKind::kChain);
  profile.serving.settings.cell_batching = CellBatching::kWholeGraphs;
  const auto records =
      play(profile, {lone_request(0ms, 5, 3), lone_request(1500us, 2, 1), lone_request(2ms, 7, 2)});
  CHECK(records[0].finished == 7ms);   // five steps of the prompt, one more for each further token
  CHECK(records[1].finished == 15ms);  // seven steps, as the longest of their batch, and one
  CHECK(records[2].finished == 15ms);
}

TEST_CASE("simulated cells: encoder and decoder have costs of their own") {
  const auto records = play(cell_profile(GraphKind::kEncodeDecode), {lone_request(0ms, 4, 3)});
  CHECK(records[0].first_token == 14ms);
  CHECK(records[0].finished == 34ms);
}

TEST_CASE("simulated cells: a complete tree takes its leaves and a batch a level") {
  const auto records = play(cell_profile(GraphKind::kTree), {lone_request(0ms, 16, 1)}, TreeShape::kComplete);
  CHECK(records[0].outcome == Outcome::kCompleted);
  CHECK(records[0].finished == 41ms);
}

TEST_CASE("simulated cells: trees for a profile of another network, or the reverse, are refused") {
  const auto refusal = [](GraphKind graphs, TreeShape trees) -> std::string {
    try {
      play(cell_profile(graphs), {lone_request(0ms, 4, 1)}, trees);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal(GraphKind::kChain, TreeShape::kParsed) ==
        "simulation: class 'default': expected no trees for a profile of ");
  CHECK(refusal(GraphKind::kTree, TreeShape::kNone) ==
        "simulation: class 'default': expected trees for a profile of ");
}

TEST_CASE("word tree: every node but the root is one node's child, behind both of its own") {
  for (const TreeShape shape : {TreeShape::kParsed, TreeShape::kComplete})
    for (std::uint32_t num_words = 1; num_words < 70; ++num_words) {
      const auto inner = inner_nodes(shape, num_words, RandomSource(num_words));
      REQUIRE(inner.size() == num_words - 1);
      std::vector<std::uint32_t> num_parents(2 * num_words - 1);
      for (std::uint32_t i = 0; i < inner.size(); ++i)
        for (const std::uint32_t child : inner[i]) {
          REQUIRE(child < num_words + i);
          num_parents[child] += 1;
        }
      CHECK(num_parents.back() == 0);
      num_parents.pop_back();
      CHECK(num_parents == std::vector<std::uint32_t>(2 * num_words - 2, 1));
    }
}

}  // namespace simulated_cells_test
