// SPDX-License-Identifier: Apache-2.0
#include "policy/unfolding/cell_graph.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

CellGraph::NodeIndex CellGraph::add(Node node, std::span<const NodeIndex> inputs) {
  const auto index = static_cast<NodeIndex>(nodes_.size());
  result_indexes_.push_back(static_cast<std::uint32_t>(num_results_));
  num_results_ += node.is_result ? 1 : 0;
  nodes_.push_back(node);
  for (const NodeIndex input : inputs) {
    if (input < index) {
      inputs_.push_back(input);
    } else if (!misplaced_) {
      misplaced_ = Misplaced{.node = index, .input = input};
    }
  }
  first_input_.push_back(static_cast<std::uint32_t>(inputs_.size()));
  return index;
}

CellGraph::NodeIndex CellGraph::add(Node node, std::initializer_list<NodeIndex> inputs) {
  return add(node, std::span(inputs.begin(), inputs.size()));
}

void CellGraph::grow(Growth growth) {
  growth_ = std::move(growth);
  first_reader_.clear();  // not finished: growth reads nodes, too
}

void CellGraph::finish() {
  std::vector<std::uint32_t> num_readers(nodes_.size() + 1);
  for (const NodeIndex input : inputs_) num_readers[input] += 1;
  first_reader_.assign(nodes_.size() + 1, 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) first_reader_[i + 1] = first_reader_[i] + num_readers[i];
  readers_.resize(inputs_.size());
  std::vector<std::uint32_t> next = first_reader_;
  for (NodeIndex i = 0; i < nodes_.size(); ++i)
    for (const NodeIndex input : inputs(i)) readers_[next[input]++] = i;
  if (growth_) {
    for (const NodeIndex read : growth_->read) num_readers[std::min<std::size_t>(read, nodes_.size())] += 1;
  }
  num_rows_ = 0;
  rows_.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const auto read = inputs(i);
    const bool takes_over = !read.empty() && num_readers[read.front()] == 1;
    rows_[i] = takes_over ? rows_[read.front()] : num_rows_++;
  }
}

std::string CellGraph::problem(std::size_t num_cells, std::size_t max_rows) const {
  if (nodes_.empty()) return "The graph has no nodes.";
  if (nodes_.size() > kMaxNodes)
    return "The graph has " + std::to_string(nodes_.size()) + " nodes, at most " + std::to_string(kMaxNodes) +
           " are possible.";
  if (inputs_.size() > kMaxInputs)
    return "The graph's nodes have " + std::to_string(inputs_.size()) + " inputs, at most " +
           std::to_string(kMaxInputs) + " are possible.";
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].cell >= num_cells)
      return "Node " + std::to_string(i) + " is of cell " + std::to_string(nodes_[i].cell) +
             ", but the model has " + std::to_string(num_cells) + ".";
  if (misplaced_)
    return "Node " + std::to_string(misplaced_->node) + " reads node " + std::to_string(misplaced_->input) +
           ", but inputs are nodes that were added before.";
  if (first_reader_.size() != nodes_.size() + 1) return "The graph is not finished.";
  if (growth_)
    if (std::string problem = growth_problem(num_cells); !problem.empty()) return problem;
  if (num_rows_ > max_rows)
    return "The graph needs " + std::to_string(num_rows_) + " rows of state at once, the device has " +
           std::to_string(max_rows) + ".";
  return {};
}

std::string CellGraph::growth_problem(std::size_t num_cells) const {
  if (growth_->cell >= num_cells)
    return "The graph grows by nodes of cell " + std::to_string(growth_->cell) + ", but the model has " +
           std::to_string(num_cells) + ".";
  if (growth_->read.size() > kMaxInputs)
    return "The graph grows by nodes of " + std::to_string(growth_->read.size()) + " inputs, at most " +
           std::to_string(kMaxInputs) + " are possible.";
  for (const NodeIndex read : growth_->read)
    if (read >= nodes_.size())
      return "The graph grows by nodes that read node " + std::to_string(read) + ", but it has " +
             std::to_string(nodes_.size()) + ".";
  if (!readers(nodes_.size() - 1).empty())
    return "The graph grows behind its last node, but others read that one.";
  return {};
}

std::span<const CellGraph::NodeIndex> CellGraph::inputs(std::size_t index) const {
  return std::span(inputs_).subspan(first_input_[index], first_input_[index + 1] - first_input_[index]);
}

std::span<const CellGraph::NodeIndex> CellGraph::readers(std::size_t index) const {
  return std::span(readers_).subspan(first_reader_[index], first_reader_[index + 1] - first_reader_[index]);
}

CellGraph unfold_chain(std::span<const std::int32_t> tokens) {
  CellGraph graph;
  for (const std::int32_t token : tokens) {
    const auto index = static_cast<CellGraph::NodeIndex>(graph.size());
    if (index == 0) {
      graph.add({.cell = 0, .token = token}, {});
    } else {
      graph.add({.cell = 0, .token = token}, {index - 1});
    }
  }
  graph.grow({.cell = 0, .read = {}});
  graph.finish();
  return graph;
}

CellGraph unfold_encode_decode(std::span<const std::int32_t> source, const EncodeDecode& rule) {
  std::vector<std::int32_t> tokens(source.begin(), source.end());
  if (rule.source_end != CellGraph::kNoToken) tokens.push_back(rule.source_end);
  CellGraph graph;
  std::vector<CellGraph::NodeIndex> encoder;
  for (const std::int32_t token : tokens) {
    const auto behind = std::span(encoder).last(encoder.empty() ? 0 : 1);
    encoder.push_back(graph.add({.cell = 0, .token = token}, behind));
  }
  std::vector<CellGraph::NodeIndex> read = {};
  std::vector<CellGraph::NodeIndex> inputs = {encoder.back()};
  if (rule.attends) read = encoder;
  inputs.insert(inputs.end(), read.begin(), read.end());
  graph.add({.cell = 1, .token = rule.decoder_start}, inputs);
  graph.grow({.cell = 1, .read = std::move(read)});
  graph.finish();
  return graph;
}

}  // namespace troupe
