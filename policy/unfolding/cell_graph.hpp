// SPDX-License-Identifier: Apache-2.0
// A request as a graph of cells (BatchMaker, Gao et al., EuroSys 2018): nodes, each of one
// cell type, which read the states of earlier nodes. Whatever builds one serves any
// network whose cells keep rows:
//
//   CellGraph graph;
//   const auto a = graph.add({.cell = 0, .token = 5}, {});
//   const auto b = graph.add({.cell = 0, .token = 7}, {a});   // a chain
//   graph.add({.cell = 0, .token = 9, .is_result = true}, {a});  // and a branch of it
//   graph.finish();
//
// Inputs are earlier nodes, so there is no cycle. A graph may grow: behind its last node,
// which no other one reads, a node follows for each token that is drawn.
//
// States are in rows of a pool. A node takes over the row of its first input if no other
// node reads that one; finish() says which row of the request's is whose. So a chain needs
// one row, and a tree as many as it has leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

class CellGraph {
 public:
  using NodeIndex = std::uint32_t;
  static constexpr std::int32_t kNoToken = -1;
  static constexpr std::size_t kMaxNodes = 65536;
  static constexpr std::size_t kMaxInputs = 4 * kMaxNodes;  // of all nodes together

  struct Node {
    std::uint32_t cell = 0;         // the network's CellId
    std::int32_t token = kNoToken;  // its own input
    bool is_result = false;         // its vector is wanted
  };
  // Nodes behind the last one, all in its row. Each reads the token that was drawn last,
  // that row, and the rows of `read`.
  struct Growth {
    std::uint32_t cell = 0;
    std::vector<NodeIndex> read;
  };

  // Returns its index. Inputs are nodes that were added before; problem() names another.
  NodeIndex add(Node node, std::span<const NodeIndex> inputs);
  NodeIndex add(Node node, std::initializer_list<NodeIndex> inputs);
  void grow(Growth growth);
  // Assigns rows; nothing is added behind it. A graph without nodes is none.
  void finish();

  // Why it can't be run with so many rows and cells, which is for the client; empty: it can.
  // All that a graph built by anybody may have wrong, but for tokens and what its cells give.
  std::string problem(std::size_t num_cells, std::size_t max_rows) const;

  std::size_t size() const { return nodes_.size(); }  // without what grows
  const Node& node(std::size_t index) const { return nodes_[index]; }
  std::span<const NodeIndex> inputs(std::size_t index) const;
  std::span<const NodeIndex> readers(std::size_t index) const;  // nodes that have it as an input
  const std::optional<Growth>& growth() const { return growth_; }
  std::size_t num_results() const { return num_results_; }
  std::size_t result_index(std::size_t node) const { return result_indexes_[node]; }  // among these, in order
  std::uint32_t num_rows() const { return num_rows_; }
  std::uint32_t row(std::size_t index) const { return rows_[index]; }

 private:
  struct Misplaced {
    std::size_t node = 0;
    NodeIndex input = 0;  // the node itself, or one that was not there
  };
  std::string growth_problem(std::size_t num_cells) const;

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> first_input_ = {0};  // by node, and behind the last
  std::vector<NodeIndex> inputs_;
  std::vector<std::uint32_t> first_reader_;
  std::vector<NodeIndex> readers_;
  std::optional<Growth> growth_;
  std::optional<Misplaced> misplaced_;  // the first, which is no input
  std::vector<std::uint32_t> rows_;
  std::uint32_t num_rows_ = 0;
  std::size_t num_results_ = 0;
  std::vector<std::uint32_t> result_indexes_;  // by node: results in front of it
};

// A node of cell 0 for each token; the last draws, and the graph grows.
CellGraph unfold_chain(std::span<const std::int32_t> tokens);

struct EncodeDecode {
  std::int32_t source_end = CellGraph::kNoToken;  // behind the source; kNoToken: nothing is
  std::int32_t decoder_start = 0;
  bool attends = false;  // the decoder reads all states of the encoder
};
// Nodes of cell 0 for the source, then of cell 1, which draw.
CellGraph unfold_encode_decode(std::span<const std::int32_t> source, const EncodeDecode& rule);

}  // namespace troupe
