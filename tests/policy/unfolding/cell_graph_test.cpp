// SPDX-License-Identifier: Apache-2.0
#include "policy/unfolding/cell_graph.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace troupe;

TEST_CASE("cell graph: a chain has one row, a tree one a leaf") {
  const CellGraph chain = unfold_chain(std::vector<std::int32_t>{5, 6, 7});
  CHECK(chain.size() == 3);
  CHECK(chain.num_rows() == 1);
  CellGraph tree;
  const auto a = tree.add({.cell = 0, .token = 1}, {}), b = tree.add({.cell = 0, .token = 2}, {});
  const auto c = tree.add({.cell = 0, .token = 3}, {});
  const auto inner = tree.add({.cell = 1}, {a, b});
  tree.add({.cell = 1}, {inner, c});
  tree.finish();
  CHECK(tree.num_rows() == 3);
  CHECK(tree.row(inner) == tree.row(a));
}

TEST_CASE("cell graph: a state that several nodes read keeps its row") {
  CellGraph graph;
  const auto stem = graph.add({.cell = 0, .token = 1}, {});
  const auto left = graph.add({.cell = 0, .token = 2}, {stem});
  const auto right = graph.add({.cell = 0, .token = 3}, {stem});
  graph.finish();
  CHECK(graph.num_rows() == 3);
  CHECK(graph.row(left) != graph.row(stem));
  CHECK(graph.row(right) != graph.row(stem));
  CHECK(graph.readers(stem).size() == 2);
}

TEST_CASE("cell graph: a decoder that attends keeps all states of the encoder, another one row") {
  const std::vector<std::int32_t> source = {4, 5, 6};
  const CellGraph attending =
      unfold_encode_decode(source, {.source_end = 9, .decoder_start = 1, .attends = true});
  CHECK(attending.size() == 5);
  CHECK(attending.num_rows() == 5);
  CHECK(attending.inputs(4).size() == 5);  // the last state, and all of them
  CHECK(attending.growth()->read.size() == 4);
  const CellGraph plain = unfold_encode_decode(source, {.decoder_start = 1});
  CHECK(plain.size() == 4);
  CHECK(plain.num_rows() == 1);
}

TEST_CASE("cell graph: what can't be run says why") {
  CellGraph empty;
  empty.finish();
  CHECK(empty.problem(1, 1) == "The graph has no nodes.");
  CellGraph graph = unfold_chain(std::vector<std::int32_t>{1, 2});
  CHECK(graph.problem(1, 1) == "");
  CHECK(graph.problem(0, 1) == "Node 0 is of cell 0, but the model has 0.");
  CHECK(graph.problem(1, 0) == "The graph needs 1 rows of state at once, the device has 0.");
  CellGraph wide;
  const auto first = wide.add({.cell = 0, .token = 1}, {});
  for (std::size_t i = 0; i < 5; ++i)
    wide.add({.cell = 0, .token = 1}, std::vector<CellGraph::NodeIndex>(60000, first));
  wide.finish();
  CHECK(wide.problem(1, 99) == "The graph's nodes have 300000 inputs, at most 262144 are possible.");
}

TEST_CASE("cell graph: what somebody built wrong is named, and no index leaves the graph") {
  CellGraph unfinished;
  unfinished.add({.cell = 0, .token = 1}, {});
  CHECK(unfinished.problem(1, 9) == "The graph is not finished.");
  unfinished.finish();
  CHECK(unfinished.problem(1, 9) == "");
  unfinished.add({.cell = 0, .token = 1}, {0});
  CHECK(unfinished.problem(1, 9) == "The graph is not finished.");
  unfinished.finish();
  CHECK(unfinished.problem(1, 9) == "");
  CHECK(unfinished.num_rows() == 1);

  CellGraph ahead;
  ahead.add({.cell = 0, .token = 1}, {});
  ahead.add({.cell = 0, .token = 1}, {0, 7});
  ahead.add({.cell = 0, .token = 1}, {2});
  ahead.finish();
  CHECK(ahead.problem(1, 9) == "Node 1 reads node 7, but inputs are nodes that were added before.");

  const auto growing = [](CellGraph::Growth growth) {
    CellGraph graph;
    graph.add({.cell = 0, .token = 1}, {});
    graph.grow(std::move(growth));
    graph.finish();
    return graph.problem(2, 9);
  };
  CHECK(growing({.cell = 1, .read = {0}}) == "");
  CHECK(growing({.cell = 2, .read = {}}) == "The graph grows by nodes of cell 2, but the model has 2.");
  CHECK(growing({.cell = 0, .read = {0, 1}}) == "The graph grows by nodes that read node 1, but it has 1.");
  CHECK(growing({.cell = 0, .read = std::vector<CellGraph::NodeIndex>(300000)}) ==
        "The graph grows by nodes of 300000 inputs, at most 262144 are possible.");
}

TEST_CASE("cell graph: results are numbered in the order of their nodes") {
  CellGraph graph;
  graph.add({.cell = 0, .token = 1}, {});
  const auto second = graph.add({.cell = 0, .token = 2, .is_result = true}, {});
  const auto third = graph.add({.cell = 0, .token = 3, .is_result = true}, {second});
  graph.finish();
  CHECK(graph.num_results() == 2);
  CHECK(graph.result_index(second) == 0);
  CHECK(graph.result_index(third) == 1);
}
