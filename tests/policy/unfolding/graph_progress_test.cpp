// SPDX-License-Identifier: Apache-2.0
#include "policy/unfolding/graph_progress.hpp"

#include <doctest/doctest.h>

using namespace troupe;

namespace {

GraphProgress progress_of(CellGraph graph, std::uint32_t max_drawn, std::uint32_t max_pending) {
  return {std::make_shared<const CellGraph>(std::move(graph)), 2, max_drawn, max_pending};
}

}  // namespace

TEST_CASE("graph progress: a node is ready when its inputs are submitted, and not before") {
  CellGraph tree;
  const auto a = tree.add({.cell = 0, .token = 1}, {}), b = tree.add({.cell = 0, .token = 2}, {});
  tree.add({.cell = 1}, {a, b});
  tree.finish();
  GraphProgress progress = progress_of(std::move(tree), 0, 1);
  CHECK(progress.num_ready(0) == 2);
  CHECK(progress.num_ready(1) == 0);
  const auto first = progress.submit(0);
  CHECK(first.token == 1);
  CHECK(progress.num_ready(1) == 0);
  const auto second = progress.submit(0);
  CHECK(progress.num_ready(1) == 1);
  const auto root = progress.submit(1);
  CHECK(root.token == -1);
  for (const auto& step : {first, second}) progress.completed(step);
  CHECK_FALSE(progress.is_done());
  progress.completed(root);
  CHECK(progress.is_done());
}

TEST_CASE("graph progress: a chain draws ahead of what is known, as far as it may") {
  GraphProgress progress = progress_of(unfold_chain(std::vector<std::int32_t>{4, 5}), 3, 2);
  const auto first = progress.submit(0);
  CHECK_FALSE(first.draw);
  const auto second = progress.submit(0);
  CHECK(second.draw == 0U);
  const auto third = progress.submit(0);
  CHECK(third.input_from_slot);
  CHECK(third.draw == 1U);
  CHECK(progress.num_ready(0) == 0);  // two draws are pending
  progress.completed(first);
  progress.completed(second);
  progress.know(8);
  const auto fourth = progress.submit(0);
  CHECK(fourth.draw == 2U);
  progress.completed(third);
  progress.know(9);
  CHECK(progress.num_ready(0) == 0);  // three tokens at most
  progress.completed(fourth);
  progress.know(10);
  CHECK(progress.is_at_limit());
  CHECK(progress.num_in_flight() == 0);
}

TEST_CASE("graph progress: after a restart known tokens are read, and drawn no second time") {
  GraphProgress progress = progress_of(unfold_chain(std::vector<std::int32_t>{4, 5}), 8, 1);
  for (int i = 0; i < 3; ++i) {
    const auto step = progress.submit(0);
    progress.completed(step);
    if (step.draw) progress.know(20 + i);
  }
  CHECK(progress.tokens() == std::vector<std::int32_t>{21, 22});
  progress.restart();
  std::vector<std::int32_t> read;
  std::optional<std::uint32_t> draw;
  while (!draw) {
    const auto step = progress.submit(0);
    progress.completed(step);
    CHECK_FALSE(step.input_from_slot);
    read.push_back(step.token);
    draw = step.draw;
  }
  CHECK(read == std::vector<std::int32_t>{4, 5, 21, 22});
  CHECK(*draw == 2);
}

TEST_CASE("graph progress: without permission nothing is drawn behind the first token") {
  GraphProgress progress = progress_of(unfold_chain(std::vector<std::int32_t>{4}), 8, 1);
  const auto first = progress.submit(0);
  CHECK(first.draw == 0U);
  progress.completed(first);
  progress.know(3);
  progress.permit_draw(false);
  CHECK(progress.num_ready(0) == 0);
  progress.permit_draw(true);
  CHECK(progress.num_ready(0) == 1);
}
