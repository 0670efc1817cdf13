// SPDX-License-Identifier: Apache-2.0
// Cells of a small world that keep rows of state. A node leaves in its row a hash of its token and of all
// rows that it reads, and draws a token from that: a row that is wrong, stale or foreign gives a wrong
// answer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/program/batch.hpp"
#include "policy/unfolding/cell_graph.hpp"

namespace troupe {

std::vector<CellType> small_cells(const UnfoldingRule& rule);
// The graph of a prompt; of a tree, its words are leaves, joined from the left.
std::shared_ptr<const CellGraph> small_graph(const UnfoldingRule& rule, std::span<const std::int32_t> prompt);

struct SmallGraphAnswer {
  std::vector<std::int32_t> tokens;  // of a graph that grows: max_tokens
  std::vector<float> vector;         // of its result nodes
};
SmallGraphAnswer small_answer(const CellGraph& graph, std::uint32_t max_tokens);

// The pool of one device: by row, the state and the token that was drawn last.
struct SmallRows {
  static constexpr std::int32_t kUnwritten = -1;

  std::vector<std::int32_t> states, drawn;

  // Empty: the batch can be what a device of such rows runs.
  std::string problem(const Batch& batch, std::uint32_t max_nodes) const;
  // Empty: all nodes had what they read. loses_rows: no node leaves its state.
  std::string run(const Batch& batch, const CellType& cell, bool loses_rows, BatchResult& result);
  // Overwrites rows that are free.
  void poison(SlotId row) { states.at(row) = drawn.at(row) = kUnwritten; }
};

}  // namespace troupe
