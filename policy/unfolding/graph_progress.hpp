// SPDX-License-Identifier: Apache-2.0
// How far a request's graph of cells has come on the one worker that has its rows: which
// nodes are ready, submitted, done, and which tokens were drawn. A worker's device works in
// order, so a node is ready as soon as all of its inputs are submitted (BatchMaker marks
// them done then, too), and a drawn token is read on the device by the node that follows.
//
//   waits for inputs ──► ready ──submit──► in flight ──completed──► done
//
// A graph that grows has at most max_pending draws that were not seen: one that ends
// unforeseen wastes at most max_pending - 1 steps. Known tokens are not drawn again when
// everything is computed anew (restart()), only read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "policy/unfolding/cell_graph.hpp"

namespace troupe {

class GraphProgress {
 public:
  using NodeIndex = CellGraph::NodeIndex;

  struct Step {
    NodeIndex node = 0;                 // >= graph().size(): it grew
    std::int32_t token = -1;            // its input; -1: none, or known on the device only
    bool input_from_slot = false;       // the latter
    std::optional<std::uint32_t> draw;  // it draws the answer's token of this index, from 0
  };

  GraphProgress() = default;
  // The graph is finished. max_drawn: tokens that may be drawn, of a graph that grows >= 1.
  GraphProgress(std::shared_ptr<const CellGraph> graph, std::size_t num_cells, std::uint32_t max_drawn,
                std::uint32_t max_pending);

  const CellGraph& graph() const { return *graph_; }
  std::uint32_t num_ready(std::uint32_t cell) const;
  // The oldest ready node of that cell is submitted; there is one.
  Step submit(std::uint32_t cell);
  void completed(const Step& step);
  // The next token of the answer, which a step drew that is completed, or an earlier process.
  void know(std::int32_t token) { tokens_.push_back(token); }
  // False: no further token is drawn for now. For a guided answer, whose max_pending is 1.
  void permit_draw(bool may_draw) { is_permitted_ = may_draw; }
  // Everything on the device is gone; known tokens stay known.
  void restart();

  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  std::uint32_t num_drawn() const { return static_cast<std::uint32_t>(tokens_.size()); }
  std::uint32_t num_pending() const { return num_pending_; }
  std::uint32_t max_drawn() const { return max_drawn_; }
  std::uint32_t num_submitted() const { return num_submitted_; }  // nodes
  std::uint32_t num_in_flight() const { return num_submitted_ - num_completed_; }
  bool is_at_limit() const { return num_drawn() >= max_drawn_; }
  // All nodes of a graph that does not grow are done.
  bool is_done() const { return !graph_->growth() && num_completed_ == graph_->size(); }

 private:
  friend class Fingerprint;
  struct ReadyNodes {  // of one cell, in the order in which they became ready
    std::vector<NodeIndex> nodes;
    std::size_t num_taken = 0;
  };

  bool can_grow() const;
  bool may_draw() const {
    return is_permitted_ && num_pending_ < max_pending_ && num_drawn() + num_pending_ < max_drawn_;
  }
  Step submit_grown();
  void make_ready(NodeIndex node);

  std::shared_ptr<const CellGraph> graph_;
  std::vector<ReadyNodes> ready_;           // by cell
  std::vector<std::uint32_t> num_awaited_;  // by node: inputs that are not submitted
  std::vector<std::int32_t> tokens_;        // drawn, or known to have been
  std::uint32_t max_drawn_ = 0, max_pending_ = 1;
  bool is_permitted_ = true;
  std::uint32_t num_pending_ = 0;
  std::uint32_t num_submitted_ = 0, num_completed_ = 0;  // nodes, grown ones included
  std::uint32_t num_fixed_ = 0, num_grown_ = 0;          // of those submitted
};

}  // namespace troupe
